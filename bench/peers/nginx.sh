#!/usr/bin/env bash
# nginx with its stream module, from Debian. README.md has what a peer's script is asked.
set -euo pipefail
cd "$(dirname "$0")/../generated"
nginx=${NGINX:-/usr/sbin/nginx}
module=${NGINX_STREAM_MODULE:-/usr/lib/nginx/modules/ngx_stream_module.so}

put() {
  cp "nginx/$1.map" running/nginx.map.new
  mv running/nginx.map.new running/nginx.map
}

case $1 in
  caps) echo passthrough ecdsa rsa http https udp udp-one-answer reload 10k 100k ;;
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
