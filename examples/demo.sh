#!/bin/sh
# Starts the sandbox on a free port, runs the quickstart against it in Rust and in Python, and stops it
# again. `make demo` builds the programs first, and names the Python that has the package.
set -eu

python=$1
programs=${CARGO_TARGET_DIR:-target}/debug
scratch=$(mktemp -d)
"$programs/dealkit-server" --listen 127.0.0.1:0 >"$scratch/line" 2>"$scratch/log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$scratch"' EXIT INT TERM

# The server prints its address as the first line of standard output when it is ready.
waited=0
until [ -s "$scratch/line" ]; do
    if ! kill -0 "$server" 2>/dev/null || [ "$waited" -ge 100 ]; then
        echo "demo: the sandbox did not start:" >&2
        cat "$scratch/log" >&2
        exit 1
    fi
    waited=$((waited + 1))
    sleep 0.1
done
read -r line <"$scratch/line"
echo "$line"
DEALKIT_BASE_URL=${line##* }
DEALKIT_SERVICE_KEY=sandbox-key
export DEALKIT_BASE_URL DEALKIT_SERVICE_KEY

printf '\n== Rust: examples/rust/quickstart.rs ==\n\n'
"$programs/examples/quickstart"
printf '\n== Python: examples/python/quickstart.py ==\n\n'
"$python" examples/python/quickstart.py
printf '\nThe sandbox saw:\n'
sed 's/^/  /' "$scratch/log"
