#!/usr/bin/env bash
# Tidegate as it is delivered: every bound at its default, the access log on, the files watched. README.md has what a
# peer's script is asked.
set -euo pipefail
cd "$(dirname "$0")/../generated"
tidegate=${TIDEGATE:-../../target/release/tidegate}

case $1 in
  caps) echo passthrough ecdsa rsa http https h2 h2c grpc routes reload-http udp udp-one-answer reload 10k 100k ;;
  version) "$tidegate" version | sed -n '1s/^tidegate //p' ;;
  start)
    rm -f "tidegate/$2/new.yaml" "tidegate/$2/webnew.yaml" running/tidegate.log
    exec "$tidegate" run "tidegate/$2" --workers 1 --access-log running/tidegate.log --admin 127.0.0.1:9900 --drain 1s
    ;;
  rename)
    file=new.yaml size=${2%new}
    [ "$2" = webnew ] && file=webnew.yaml size=base
    cp "tidegate/$file" "running/$file"
    echo "$PWD/running/$file,$PWD/tidegate/${size:-base}/$file"
    ;;
esac
