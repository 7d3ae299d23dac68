# `make help` lists the commands. Each does its own set-up; what it needs from Debian is installed when run as
# root and named when not.

TOOLS := $(CURDIR)/.cache/tools
DENY := $(TOOLS)/bin/cargo-deny
DENY_VERSION := 0.20.2
FUZZ := $(TOOLS)/bin/cargo-fuzz
FUZZ_VERSION := 0.13.2
FUZZ_SECONDS ?= 60

# Programs besides cargo, each with the package of Debian that has it.
FOR_DEMO := gcc:gcc openssl:openssl curl:curl socat:socat
FOR_TEST := $(FOR_DEMO) jq:jq psql:postgresql-client initdb:postgresql redis-server:redis-server \
	redis-cli:redis-tools mosquitto:mosquitto mosquitto_pub:mosquitto-clients dnsmasq:dnsmasq-base \
	dig:bind9-dnsutils dropbear:dropbear-bin nginx:nginx script:bsdutils

# A cluster, its images and the suite (conformance/README.md).
FOR_CLUSTER := jq:jq openssl:openssl curl:curl containerd:containerd runc:runc nft:nftables conntrack:conntrack \
	ip:iproute2 sysctl:procps unshare:util-linux nsenter:util-linux modprobe:kmod \
	/usr/lib/cni/bridge:containernetworking-plugins

# Of `make bench`: less than 15 minutes on two cores with Debian's peers. A row is measured SECONDS in each round.
ROUNDS ?= 3
SECONDS ?= 1.5
PEERS ?=
ROWS ?=

export CARGO_TERM_COLOR ?= auto

.PHONY: help demo test soak integration integration-cluster conformance image chart lint golden bench bench-cluster bench-decide fuzz debian

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 22

demo: NEEDED := $(FOR_DEMO)
test integration: NEEDED := $(FOR_TEST)
conformance integration-cluster chart bench-cluster: NEEDED := $(FOR_CLUSTER)
image: NEEDED := jq:jq

demo: debian ## real servers, Tidegate in front of them, and what happens; DEMO=once ends by itself
	@cargo build --quiet --package tidegate
	@examples/demo.sh target/debug/tidegate

test: debian lint ## everything that needs neither Go nor a cluster
	cargo test --workspace --quiet

soak: ## live connections and requests through 500 changes, 10,000 slow hellos, with figures: some minutes
	ulimit -n 20000 && SOAK=full cargo test --package tidegate --test soak --test faults -- \
	  --nocapture --test-threads 1 outlive_changes drip_fed

integration: debian ## with parts that Go and npm fetch: the official suite's manifests, h2spec, gRPC, a CA for ACME, a newer PostgreSQL, a real API server
	cargo build --quiet --package tidegate
	conformance/manifests.sh target/debug/tidegate
	tools/http/integration.sh target/debug/tidegate
	tools/certs/integration.sh
	tools/postgres/integration.sh
	cd tools/image && go test ./...
	conformance/cluster/build.sh
	for channel in standard experimental; do \
	  TIDEGATE_APISERVER_BIN=$(CURDIR)/.cache/cluster/bin TIDEGATE_CRDS=$(CURDIR)/.cache/cluster/crds/$$channel \
	    cargo test --quiet --package tidegate-kubernetes --test apiserver -- --ignored || exit 1; \
	done

integration-cluster: debian ## in a cluster of its own: rights, commands, shapes of data planes, faults under load, certificates (ONLY, KEEP, PROFILE)
	conformance/integration.sh

conformance: debian ## the official suite in a cluster of its own (conformance/README.md; CHANNEL, RUN, KEEP, PROFILE)
	conformance/run.sh

image: debian ## a container image as an archive, .cache/image/tidegate.tar (PROFILE=dev is quicker)
	tools/image.sh .cache/image/tidegate.tar

chart: debian ## render charts/install.yaml and the golden files of the chart; read the diff before you commit it
	conformance/cluster/build.sh
	UPDATE=1 charts/render.sh .cache/cluster/bin/helm

lint: $(DENY) ## format, lock files, clippy with warnings denied, licences, bans and sources of dependencies
	cargo fmt --all --check
	cargo fmt --manifest-path bench/loadgen/Cargo.toml --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml > /dev/null
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(DENY) --log-level error check bans licenses sources
	$(DENY) --log-level error --manifest-path bench/loadgen/Cargo.toml --config deny.toml check bans licenses sources

golden: ## rewrite the expectations beside the golden inputs and the corpus; read the diff before you commit it
	UPDATE=1 cargo test --quiet --package tidegate-translate --test golden
	UPDATE=1 cargo test --quiet --package tidegate-api --test corpus
	UPDATE=1 cargo test --quiet --package tidegate --test cases

bench: ## Tidegate against other proxies, in a namespace of its own (bench/README.md; ROUNDS, SECONDS, PEERS, ROWS), then bench-decide
	bench/prepare.sh
	bench/run.py --rounds $(ROUNDS) --seconds $(SECONDS) --peers "$(PEERS)" --rows "$(ROWS)"
	$(MAKE) bench-decide

bench-cluster: debian ## routes and Gateways in a cluster: from their creation to their first answer (PROFILE, SAMPLES, KEEP)
	conformance/bench.sh

bench-decide: ## what decisions and translations cost
	cargo bench --package tidegate-plan --bench decide -- --noplot
	cargo bench --package tidegate-translate --bench translate -- --noplot

fuzz: $(FUZZ) ## each fuzz target for FUZZ_SECONDS (60), beginning with what the tests have
	fuzz/seeds.py
	cd fuzz && for target in $$($(FUZZ) list); do \
	  RUSTC_BOOTSTRAP=1 $(FUZZ) run $$target -s none -- -max_total_time=$(FUZZ_SECONDS) || exit 1; done

debian:
	@.ci/debian.sh $(NEEDED)

$(DENY):
	cargo install --quiet --debug --locked --root $(TOOLS) --version $(DENY_VERSION) cargo-deny

$(FUZZ):
	cargo install --quiet --debug --locked --root $(TOOLS) --version $(FUZZ_VERSION) cargo-fuzz
