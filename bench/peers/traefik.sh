#!/usr/bin/env bash
# Traefik, built from its Go module; it follows its files. README.md has what a peer's script is asked.
set -euo pipefail
cd "$(dirname "$0")/../generated"
traefik=${TRAEFIK:-../bin/traefik}

stage() {
  mkdir -p running/traefik
  cp "traefik/$1.json" running/traefik.new
}

case $1 in
  caps) echo passthrough ecdsa http https h2 grpc routes udp reload reload-http 10k ;;
  version) "$traefik" version | sed -n 's/^Version: *//p' ;;
  start)
    stage "$2"
    mv running/traefik.new running/traefik/routes.yml
    exec "$traefik" --configFile="$PWD/traefik/traefik.json"
    ;;
  rename)
    stage "$2"
    echo "$PWD/running/traefik.new,$PWD/running/traefik/routes.yml"
    ;;
esac
