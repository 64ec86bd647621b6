#!/bin/sh
# Runs the make targets that must pass before a release. It runs all of them, even if some fail, and says at the end
# which failed and what could not be run here. A target that cannot run prints `not run:` and the reason, and does not
# count as a failure.
#
#   release/check.sh TARGET ...
set -u

logs=target/check-release
rm -rf "$logs" && mkdir -p "$logs"
passed='' failed=''
for target; do
    printf 'check-release: %s … ' "$target"
    start=$(date +%s)
    # A tool that hangs counts as a failure.
    if timeout "${CHECK_SECONDS:-2400}" make --no-print-directory "$target" >"$logs/$target.log" 2>&1; then
        passed="$passed $target"
        echo "$(($(date +%s) - start)) s"
    else
        failed="$failed $target"
        echo "failed after $(($(date +%s) - start)) s:"
        tail -n 40 "$logs/$target.log"
    fi
done
echo
echo "passed:$passed"
grep -h '^not run: ' "$logs"/*.log | sort -u
if [ -n "$failed" ]; then
    echo "failed:$failed (see $logs)" >&2
    exit 1
fi
