#!/usr/bin/env bash
# Certificates for *.test, one pair for the proxies and another for the backends, so that a client can tell who ended
# its TLS: certificates.sh FOLDER
set -euo pipefail
mkdir -p "$1"
cd "$1"

make() {
  local name=$1
  shift
  [ -f "$name.pem" ] && return
  openssl req -x509 "$@" -nodes -days 3650 -subj "/CN=$name.test" -addext 'subjectAltName=DNS:*.test,DNS:test' \
    -keyout "$name.key" -out "$name.crt" 2> /dev/null
  cat "$name.crt" "$name.key" > "$name.pem"
}

for owner in "" backend-; do
  make "${owner}ecdsa" -newkey ec -pkeyopt ec_paramgen_curve:P-256
  make "${owner}rsa" -newkey rsa:2048
done
