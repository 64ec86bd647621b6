# Everything here runs the same on a developer's machine and in CI. Needs Rust, Python 3.11+ and make.

PYTHON ?= python3
VENV := target/venv
CHECK_OPENAPI := $(VENV)/bin/openapi-spec-validator

# What a test may do and the product may not.
IN_TESTS := $(addprefix -A clippy::,unwrap_used expect_used panic indexing_slicing unreachable print_stdout print_stderr)

.PHONY: demo test lint docs fmt

## The project's main job, shown: a sandbox on a free port, an agent created, a deal read.
demo:
	cargo build --package dealkit-server --package dealkit-examples --bins --examples
	sh examples/demo.sh

## All tests.
test: $(CHECK_OPENAPI)
	$(CHECK_OPENAPI) sdk/contract/openapi.json
	cargo test --workspace --all-features
	cargo test --package dealkit --no-default-features

## Formatting, clippy, documentation; warnings are errors.
lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-features -- -D warnings
	cargo clippy --workspace --all-features --all-targets -- -D warnings $(IN_TESTS)
	cargo clippy --package dealkit --no-default-features -- -D warnings
	cargo clippy --package dealkit --no-default-features --features client -- -D warnings
	$(MAKE) docs

## The documentation, into target/doc.
docs:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps

fmt:
	cargo fmt --all

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { echo "make: Python 3.11 or newer with the module venv is needed (Debian: apt-get install python3-venv)" >&2; exit 1; }

# A validator of OpenAPI documents that is not ours.
$(CHECK_OPENAPI): $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check "openapi-spec-validator==0.9.0"
