#!/usr/bin/env bash
# Writes an image of Tidegate: `tools/image.sh FILE`. It has one static binary and nothing else, no shell either.
# PROFILE=dev takes what tests were built with, which is quicker to make; the default is release.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
profile=${PROFILE:-release}
folder=$profile
if [ "$profile" = dev ]; then folder=debug; fi

# Only the binary's own crate is compiled for this: what it stands on can be linked either way. Paths of this machine
# are kept out of it.
cargo rustc --quiet --package tidegate --bin tidegate --profile "$profile" -- \
  -C target-feature=+crt-static -C strip=debuginfo --remap-path-prefix "$PWD=."
version=$(cargo metadata --no-deps --format-version 1 | jq -r '.packages[] | select(.name == "tidegate").version')
mkdir -p .cache/tools/bin "$(dirname "$out")"
(cd tools/image && GOFLAGS=-buildvcs=false go build -o ../../.cache/tools/bin/image .)
.cache/tools/bin/image -binary "target/$folder/tidegate" -name "${NAME:-tidegate:$version}" \
  -label org.opencontainers.image.title=Tidegate \
  -label "org.opencontainers.image.version=$version" \
  -label "org.opencontainers.image.description=A Gateway API implementation whose heart is TLS and TCP" \
  -label org.opencontainers.image.licenses=Apache-2.0 >"$out"
