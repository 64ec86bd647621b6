#!/bin/sh
# The crates as they are published, unpacked outside of the workspace: what users get must be whole.
#
#   release/crates.sh test      runs the tests that are in each
#   release/crates.sh floors    checks each with the oldest versions that its Cargo.toml allows
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$root"
cargo package --quiet --allow-dirty --no-verify --package dealkit --package dealkit-server
# What the workspace has built of the dependencies is used again: the same versions, the same profile.
export CARGO_TARGET_DIR="$root/target" CARGO_PROFILE_DEV_DEBUG=line-tables-only
dependencies='profile.dev.package."*".debug=false'
for crate in dealkit dealkit-server; do
    tar -xzf "$root/target/package/$crate-$version.crate" -C "$work"
    for file in README.md LICENSE-MIT LICENSE-APACHE contract/openapi.json; do
        [ -s "$work/$crate-$version/$file" ] || { echo "crates: $crate has no $file" >&2; exit 1; }
    done
done

# A crate of ours that another needs comes from beside it: this version is not in the registry yet.
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
        ;;
    floors)
        # What only tests need must not lift the versions of the rest.
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
