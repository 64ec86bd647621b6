#!/bin/sh
# Runs the Python tests and the type checkers with each interpreter that is found, in an environment of its own for which
# the package is built.
#
#   release/pythons.sh python3.11 …
#
# An interpreter is a command, or a pyenv or uv version of that name. PYTEST_ARGUMENTS selects among the tests.
set -eu

cd "$(dirname "$0")/.."
tested=''
for name; do
    version=${name#python}
    python=$(command -v "$name" || ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python 2>/dev/null | tail -n 1 \
        || uv python find --no-python-downloads "$version" 2>/dev/null || true)
    # pyenv also provides a command for versions that are not selected, which fails.
    if [ -z "$python" ] || ! "$python" -c '' 2>/dev/null; then
        python=$(ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python 2>/dev/null | tail -n 1)
    fi
    if [ -z "$python" ]; then
        echo "not run: test-pythons with $name, which is not there (uv python install $version)"
        continue
    fi
    environment=target/pythons/$version
    [ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
    python=$environment/bin/python
    "$python" -m pip install --quiet --disable-pip-version-check --upgrade pip
    "$python" -m pip install --quiet --disable-pip-version-check --group test
    PYO3_PYTHON=$(pwd)/$python "$python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps \
        --config-settings=build-args="--profile dev" .
    echo "test-pythons: $("$python" -VV)"
    # shellcheck disable=SC2086
    "$python" -m pytest -q ${PYTEST_ARGUMENTS:-}
    "$python" bindings/check_types.py
    tested="$tested $version"
done
[ -n "$tested" ] || { echo "test-pythons: none of these interpreters is here: $*" >&2; exit 1; }
echo "test-pythons: passed with$tested"
