#!/bin/sh
# Makes the certificates of the examples anew: `sh certificates.sh`, in this folder. They are for tests and laptops:
# valid for a hundred years, with keys that everybody can read. Never use them anywhere else.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 \
    -subj "/CN=Tidegate example CA" -addext "keyUsage=critical,keyCertSign,cRLSign" \
    -keyout "$work/ca.key" -out "$work/ca.crt" 2>/dev/null

# certificate FOLDER FILE NAME...
certificate() {
    folder=$1
    file=$2
    shift 2
    names=$(printf ',DNS:%s' "$@")
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" \
        -addext "subjectAltName=${names#,}" -addext "extendedKeyUsage=serverAuth" \
        -keyout "$work/sec1.key" -out "$work/request" 2>/dev/null
    openssl x509 -req -in "$work/request" -CA "$work/ca.crt" -CAkey "$work/ca.key" -days 36500 \
        -copy_extensions copy -out "$folder/certs/$file.crt" 2>/dev/null
    openssl pkcs8 -topk8 -nocrypt -in "$work/sec1.key" -out "$folder/certs/$file.key"
}

certificate terminate mqtt.example.com mqtt.example.com
certificate mixed mqtt.example.com mqtt.example.com
certificate mixed www.example.com www.example.com shop.example.com
certificate reencrypt cache.example.com cache.example.com
certificate reencrypt app.example.com app.example.com
certificate grpc grpc.example.com grpc.example.com
cp "$work/ca.crt" reencrypt/certs/backend-ca.crt
