#!/bin/sh
# Tries the image that `make image` has built for this machine, in containers that share its network. `buildah run` passes the
# image's settings on, but not its entry point: that is looked up.
set -eu

port=${PORT:-18080}
key=a-key-for-this-test
secrets=$(mktemp -d)
container=$(buildah from --isolation chroot dealkit-server)
server=
clean() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    buildah rm "$container" >/dev/null
    rm -r "$secrets"
}
trap clean EXIT

fail() {
    echo "container.sh: $1" >&2
    exit 1
}
of_image() {
    buildah inspect --type image --format "{{.Docker.Config.$1}}" dealkit-server
}
# The server in the container, with these settings for `buildah run` in the first argument.
server() {
    options=$1
    shift
    # shellcheck disable=SC2086 # several options
    buildah run $options --env DEALKIT_SERVER_LISTEN=0.0.0.0:"$port" "$container" -- /dealkit-server "$@"
}

[ "$(of_image Entrypoint)" = "[/dealkit-server]" ] || fail "the entry point is $(of_image Entrypoint)"
[ "$(of_image User)" = 65532:65532 ] || fail "the user is $(of_image User)"
of_image Healthcheck.Test | grep -q '^\[CMD /dealkit-server health\]$' || fail "no health check"
of_image Env | grep -q DEALKIT_SERVER_LISTEN=0.0.0.0:8080 || fail "the address is not set"

# Without a key it says how to give it one, and nothing is healthy.
rejection=$(server '' 2>&1) && fail "it started without a key"
for setting in DEALKIT_SERVER_SERVICE_KEY --service-key-file DEALKIT_SERVER_SERVICE_KEY_FILE; do
    case $rejection in *"$setting"*) ;; *) fail "no word of $setting: $rejection" ;; esac
done
server '' health 2>/dev/null && fail "healthy without a server"

start() {
    server "$@" >"$secrets/log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        ! server '' health 2>/dev/null || return 0
        kill -0 "$server" 2>/dev/null || break
    done
    cat "$secrets/log" >&2
    fail "it does not become healthy"
}
status() {
    curl --silent --output /dev/null --write-out '%{http_code}' "$@"
}
stop() {
    pid=$(pgrep --newest --full "^/dealkit-server") || fail "no process"
    # Whoever runs this is root in the container.
    [ "$(ps -o uid= -p "$pid" | tr -d ' ')" != "$(id -u)" ] || fail "it runs as root"
    kill "$pid"
    wait "$server" || fail "it ended with $?"
    server=
}

# The key from the environment: one setting is enough.
start "--env DEALKIT_SERVER_SERVICE_KEY=$key"
deal=http://127.0.0.1:$port/v1/deals/d_1
[ "$(status -H "x-service-key: $key" "$deal")" = 200 ] || fail "a call with the key does not succeed"
[ "$(status -H "x-service-key: sandbox-key" "$deal")" = 401 ] || fail "a call with the key that everybody knows succeeds"
[ "$(status http://127.0.0.1:"$port"/__sandbox/requests)" = 403 ] || fail "the interface is open without a token"
stop

# Key and token from files, as they are mounted.
echo "$key" >"$secrets/key"
echo a-token >"$secrets/token"
chmod -R a+rX "$secrets"
start "--volume $secrets:/run/secrets:ro --env DEALKIT_SERVER_SERVICE_KEY_FILE=/run/secrets/key \
    --env DEALKIT_SERVER_ADMIN_TOKEN_FILE=/run/secrets/token"
[ "$(status -H "x-service-key: $key" "$deal")" = 200 ] || fail "a call with the key in the file does not succeed"
[ "$(status -H "x-sandbox-token: a-token" http://127.0.0.1:"$port"/__sandbox/requests)" = 200 ] || fail "the token is not taken"
stop
echo "container.sh: the image works"
