#!/bin/sh
# Runs all phases of Schemathesis against a new server, with openapi.json. Any failure is an error.
#
#   server/tests/schemathesis.sh SERVER_BINARY SCHEMATHESIS MAX_EXAMPLES [more arguments of schemathesis run]
#
# MAX_EXAMPLES applies to each operation and phase. schemathesis prints the random seed; --seed repeats a run.
set -eu

if [ "$#" -lt 3 ]; then
    echo "usage: $0 SERVER_BINARY SCHEMATHESIS MAX_EXAMPLES [argument ...]" >&2
    exit 2
fi
server=$1 schemathesis=$(realpath "$2") examples=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
pid=

# Stops the server and deletes the temporary files, even after errors.
finish() {
    if [ -n "$pid" ]; then
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The server's first line gives its address. Reading from a pipe waits for that line.
mkfifo "$work/stdout"
"$server" --listen 127.0.0.1:0 --log off >"$work/stdout" &
pid=$!
read -r line <"$work/stdout"
url=${line##* }

# schemathesis writes a cache into the working directory.
cd "$work"
export SCHEMATHESIS_HOOKS="$here/schemathesis_hooks.py"
"$schemathesis" --config-file "$here/schemathesis.toml" run "$here/../contract/openapi.json" \
    --url "$url/v1" --header "x-service-key: sandbox-key" \
    --phases examples,coverage,fuzzing,stateful --checks all --max-examples "$examples" \
    --generation-database none --no-color "$@"

# The server must still be running, and stop with exit code 0.
kill -0 "$pid"
kill "$pid"
wait "$pid"
pid=
