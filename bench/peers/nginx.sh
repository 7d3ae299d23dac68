#!/usr/bin/env bash
# nginx with its stream module, from Debian. README.md has what a peer's script is asked.
set -euo pipefail
cd "$(dirname "$0")/../generated"
nginx=${NGINX:-/usr/sbin/nginx}
module=${NGINX_STREAM_MODULE:-/usr/lib/nginx/modules/ngx_stream_module.so}

put() {
  local kind
  for kind in map web; do
    cp "nginx/$1.$kind" running/nginx.new
    mv running/nginx.new "running/nginx.$kind"
  done
}

case $1 in
  caps) echo passthrough ecdsa rsa http https h2 grpc routes udp udp-one-answer reload reload-http 10k 100k ;;
  version) "$nginx" -v 2>&1 | sed 's|.*nginx/||' ;;
  start)
    put "$2"
    mkdir -p running/nginx/logs
    sed -e "s|@MODULE@|$module|" -e "s|@FILES@|$(ulimit -n)|" nginx/nginx.conf > running/nginx.conf
    exec "$nginx" -p "$PWD/running/nginx" -c "$PWD/running/nginx.conf" -g 'daemon off;'
    ;;
  switch)
    put "$2"
    kill -HUP "$3"
    ;;
esac
