#!/bin/sh
# Checks the examples and explains some of their flows: `examples/demo.sh [TIDEGATE]`.
set -eu
tidegate=${1:-tidegate}
case $tidegate in */*) tidegate=$(cd "$(dirname "$tidegate")" && pwd)/$(basename "$tidegate") ;; esac
cd "$(dirname "$0")"

show() {
    printf '\n$ tidegate %s\n' "$*"
    # What is refused on purpose is part of the show; what cannot be done at all is not.
    "$tidegate" --color always "$@" || [ $? -eq 1 ]
}

for example in */; do
    show check "${example%/}"
done
show explain mixed --port 443 --sni vault.example.com
show explain mixed --port 443 --host www.example.com --path /
show explain mixed --port 443 --sni www.example.com --host shop.example.com
show explain reencrypt --port 6380 --sni cache.example.com
show explain http --port 8080 --host shop.example.com --path /static/logo.svg
show explain terminate tlsroute/mqtt.devices
show diff terminate mixed
