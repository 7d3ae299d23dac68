#!/usr/bin/env bash
# sniproxy, from Debian. README.md has what a peer's script is asked.
set -euo pipefail
cd "$(dirname "$0")/../generated"
sniproxy=${SNIPROXY:-/usr/sbin/sniproxy}

put() {
  cp "sniproxy/$1.conf" running/sniproxy.conf.new
  mv running/sniproxy.conf.new running/sniproxy.conf
}

case $1 in
  caps) echo passthrough reload 10k ;;
  version) "$sniproxy" -V 2>&1 | sed 's/^sniproxy //' ;;
  start)
    put "$2"
    exec "$sniproxy" -f -n "$(ulimit -n)" -c "$PWD/running/sniproxy.conf"
    ;;
  switch)
    put "$2"
    kill -HUP "$3"
    ;;
esac
