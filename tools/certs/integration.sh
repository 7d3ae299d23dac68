#!/usr/bin/env bash
# ACME with a real CA: Pebble and its DNS server, which Go builds, in strict mode. First the library against it, then
# `tidegate run`, whose data plane answers the challenges: tools/certs/integration.sh. TIDEGATE_KILLS and TIDEGATE_NAMES
# say how much is done: 20 kills and 1,000 names where nobody says.
set -euo pipefail
cd "$(dirname "$0")"
# What is there already is not built again.
tools=$PWD/../../.cache/tools/certs
mkdir -p "$tools"
go build -o "$tools/" github.com/letsencrypt/pebble/v2/cmd/pebble github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv

cd ../..
export TIDEGATE_PEBBLE=$tools
cargo test --quiet --package tidegate-certs --test pebble -- --ignored --test-threads 1
cargo test --quiet --package tidegate --test certificates -- --ignored --test-threads 1 --nocapture
