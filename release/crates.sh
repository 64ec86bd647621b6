#!/bin/sh
# Checks the crates as they are published, unpacked outside the workspace: what users get must be complete.
#
#   release/crates.sh test      runs each crate's own tests, and those of the pages and examples, as a program that depends on them
#   release/crates.sh floors    checks each crate with the oldest versions that its Cargo.toml allows
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$root"
cargo package --quiet --allow-dirty --no-verify --package dealkit --package dealkit-server
# Reuses the dependencies that the workspace has built: the same versions, the same profile.
export CARGO_TARGET_DIR="$root/target" CARGO_PROFILE_DEV_DEBUG=line-tables-only
dependencies='profile.dev.package."*".debug=false'
for crate in dealkit dealkit-server; do
    tar -xzf "$root/target/package/$crate-$version.crate" -C "$work"
    for file in README.md LICENSE-MIT LICENSE-APACHE contract/openapi.json; do
        [ -s "$work/$crate-$version/$file" ] || { echo "crates: $crate has no $file" >&2; exit 1; }
    done
done

# If one of our crates needs another, it takes the one unpacked next to it: this version is not in the registry yet.
in_crate() {
    cd "$work/$crate-$version"
    echo "crates: $crate, $*"
    command=$1
    shift
    if [ "$crate" = dealkit ]; then
        cargo $command --config "$dependencies" "$@"
    else
        cargo $command --config "$dependencies" --config "patch.crates-io.dealkit.path='$work/dealkit-$version'" "$@"
    fi
}

for crate in dealkit dealkit-server; do
    case $1 in
    test)
        in_crate test --quiet --all-features
        # The older of the two versions of arrow, which cargo picks only when it is told to.
        if [ "$crate" = dealkit ]; then
            for part in array buffer schema; do
                cargo update --quiet --precise 59.3.2 "arrow-$part@60"
            done
            in_crate test --quiet --all-features --test offline arrow
        fi
        ;;
    floors)
        # Dev-dependencies must not raise the versions of the other dependencies.
        cd "$work/$crate-$version"
        awk '/^\[/ { skip = /dev-dependencies/ || /^\[\[(test|bench|example)\]\]/ } !skip' Cargo.toml >stripped
        mv stripped Cargo.toml
        rm -f Cargo.lock
        in_crate "+${NIGHTLY:-nightly} update" --quiet -Z direct-minimal-versions
        in_crate check --quiet --locked --lib --bins --all-features
        ;;
    *)
        echo "usage: $0 test|floors" >&2
        exit 2
        ;;
    esac
done

# The programs on the pages and in the examples, against the unpacked crates.
if [ "$1" = test ]; then
    cd "$work"
    cp -R "$root/examples" "$root/docs" "$root/README.md" "$root/Cargo.lock" .
    mkdir sdk && cp "$root/sdk/README.md" sdk
    sed -e 's/^members = .*/members = ["examples"]/' -e "s#path = \"sdk\"#path = \"dealkit-$version\"#" \
        -e "s#path = \"server\"#path = \"dealkit-server-$version\"#" "$root/Cargo.toml" >Cargo.toml
    echo "crates: the pages and the examples"
    cargo test --quiet --package dealkit-examples --config "$dependencies" --config "patch.crates-io.dealkit.path='$work/dealkit-$version'"
fi
