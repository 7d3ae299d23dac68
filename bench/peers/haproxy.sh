#!/usr/bin/env bash
# HAProxy, from Debian. README.md has what a peer's script is asked.
set -euo pipefail
cd "$(dirname "$0")/../generated"
haproxy=${HAPROXY:-/usr/sbin/haproxy}

put() {
  local kind
  for kind in "" http. hosts. paths.; do
    cp "haproxy/$1.${kind}map" running/haproxy.map.new
    mv running/haproxy.map.new "running/haproxy.${kind}map"
  done
}

case $1 in
  caps) echo passthrough splice runtime runtime-http ecdsa rsa http https h2 h2c grpc routes reload reload-http 10k 100k ;;
  version) "$haproxy" -v | sed -n 's/^HAProxy version \([^ -]*\).*/\1/p' ;;
  start)
    put "$2"
    exec "$haproxy" -W -f haproxy/haproxy.cfg
    ;;
  switch)
    put "$2"
    kill -USR2 "$3"
    ;;
  switch-runtime)
    map="haproxy.map new.test be_echo"
    [ "$2" = webnew ] && map="haproxy.http.map new.test be_http"
    exec 3<> /dev/tcp/127.0.0.1/9998
    echo "add map $PWD/running/$map" >&3
    # The answer is an empty line.
    read -r -t 2 _ <&3 || true
    ;;
esac
