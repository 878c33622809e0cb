# Gatepost: build, run, test. `make help` lists the targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help
CARGO ?= cargo
# The thin client has a build of its own: statically linked, so that it starts in microseconds.
CALL := target/call/call/gatepost-call
BUILD_CALL := rustc --locked -p gatepost-call --bin gatepost-call --profile call \
	--target-dir target/call -- -C target-feature=+crt-static -C relocation-model=static

DENY_VERSION := 0.20.2
DENY := target/tools/bin/cargo-deny

.PHONY: help build benchmarks trend run test crash cluster mutants simulation soak check lint doc deny advisories sanitize format peers defaults dist call clean

help: ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## Build the server and the thin client
	$(CARGO) build --release --locked -p gatepost -p gatepost-bench
	@$(MAKE) --no-print-directory call

run: ## Build quickly, and serve on loopback with the defaults
	$(CARGO) run --profile quick --locked -p gatepost -- serve

test: ## Test everything, against real peers; installs what it needs
	@tests/run

crash: ## Kill the server under load, ROUNDS times (300); FAULTS=eio,torn,...: on a failing disk instead
	GATEPOST_TEST_CRASH_ROUNDS=$(or $(ROUNDS),300) GATEPOST_TEST_CRASH_FAULTS=$(FAULTS) \
	GATEPOST_TEST_CRASH_FAULT_ROUNDS=$(if $(FAULTS),$(or $(ROUNDS),300),20) \
	$(CARGO) test --release --locked -p gatepost --test crash -- --nocapture $(if $(FAULTS),disk_faults)

cluster: ## Faults of a cluster under load: of processes ROUNDS times (150), and of networks and disks; FAULTS='Kill;Stop': those that begin so; ADOPT_AFTER=1s: the setting; PARTITIONS=1: of the log; NATS_OTHER=program: of another version, replaces the NATS servers
	GATEPOST_TEST_CLUSTER_ROUNDS=$(or $(ROUNDS),150) GATEPOST_TEST_CLUSTER_FAULTS='$(FAULTS)' \
	GATEPOST_TEST_CLUSTER_ADOPT_AFTER='$(ADOPT_AFTER)' \
	GATEPOST_TEST_CLUSTER_PARTITIONS='$(PARTITIONS)' GATEPOST_TEST_NATS_OTHER='$(NATS_OTHER)' \
	$(CARGO) test --release --locked -p gatepost --test cluster -- --nocapture faults

mutants: ## Build servers that violate a guarantee, and expect the tests of durability to detect it
	@tests/mutants

simulation: ## Simulate sessions under crashes, SEEDS schedules (100000) on all processors
	GATEPOST_TEST_SIMULATION_SEEDS=$(or $(SEEDS),100000) \
	$(CARGO) test --release --locked -p gatepost-broker --test simulation -- --nocapture --test-threads=1 promises

soak: ## Run misbehaving clients against the server, ROUNDS times (2000)
	GATEPOST_TEST_SOAK_ROUNDS=$(or $(ROUNDS),2000) $(CARGO) test --release --locked -p gatepost --test soak -- --nocapture

check: ## Compile everything, quickly
	$(CARGO) check --release --locked --workspace --all-targets

lint: ## Formatting, lints and the lock file of the fuzz targets, as CI checks them
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings
	$(CARGO) metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null

doc: ## The documentation of all items, without a broken link
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --locked --workspace --no-deps --document-private-items

deny: $(DENY) ## Licences, sources and banned crates of the dependencies, by deny.toml
	$(DENY) --locked --color auto check bans licenses sources

advisories: $(DENY) ## Known vulnerabilities of the dependencies; needs the RustSec database (GitHub)
	$(DENY) --locked --color auto check advisories

sanitize: ## Unit tests of the crates with unsafe code, with AddressSanitizer (nightly compiler)
	RUSTFLAGS=-Zsanitizer=address $(CARGO) +nightly test --locked --target x86_64-unknown-linux-gnu \
		--target-dir target/sanitize -p gatepost-pattern -p gatepost-broker -p gatepost-store --lib

# Unoptimised: it runs for seconds, and compiles in a third of the time.
$(DENY):
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 $(CARGO) install --quiet --locked --version $(DENY_VERSION) \
		--no-default-features --root target/tools --target-dir target/tools/build cargo-deny

format: ## Format the code
	$(CARGO) fmt --all

peers: ## Install the programs that the tests talk to (Debian; needs root)
	@tests/install-peers

defaults: build ## Renew docs/defaults.toml from the program
	@settings=$$(cd "$$(mktemp -d)" && $(CURDIR)/target/release/gatepost config) && \
	{ sed -n '/^#/p' docs/defaults.toml; sed -E 's/ +# default$$//' <<<"$$settings"; } > docs/defaults.new && \
	mv docs/defaults.new docs/defaults.toml

call: $(CALL) ## Build the thin client, statically linked

$(CALL): $(shell find crates/gatepost-call/src -type f) Cargo.lock
	$(CARGO) $(BUILD_CALL)
	@touch $(CALL)

benchmarks: build ## Measure against the installed peers, and renew BENCHMARKS.md (25 min; SHORT=1: 10)
	BENCH_GATEPOST_CALL=$(CURDIR)/$(CALL) benchmarks/measure

trend: build ## Fail if a ratio to a peer fell by over 10 % since the record before (SINCE=PATH: since those records)
	target/release/gatepost-bench trend benchmarks --ratios $(if $(SINCE),--since $(SINCE))

dist: ## Build the distribution binary: fat LTO, one codegen unit, guided by a profile (20 min)
	@benchmarks/build-dist
	$(CARGO) $(BUILD_CALL)

clean: ## Remove build products
	$(CARGO) clean
