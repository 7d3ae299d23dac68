#!/bin/sh
# Makes the certificates of the examples anew: `sh certificates.sh`, in this folder. They are for tests and laptops:
# valid for a hundred years, with keys that everybody can read. Never use them anywhere else.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 \
    -subj "/CN=Tidegate example CA" -addext "keyUsage=critical,keyCertSign,cRLSign" \
    -keyout "$work/ca.key" -out "$work/ca.crt" 2>/dev/null

# certificate FOLDER NAME...: the file is named after the first name.
certificate() {
    folder=$1 file=$2
    shift
    mkdir -p "$folder"
    names=$(printf ',DNS:%s' "$@")
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" \
        -addext "subjectAltName=${names#,}" -addext "extendedKeyUsage=serverAuth" \
        -keyout "$work/sec1.key" -out "$work/request" 2>/dev/null
    openssl x509 -req -in "$work/request" -CA "$work/ca.crt" -CAkey "$work/ca.key" -days 36500 \
        -copy_extensions copy -out "$folder/$file.crt" 2>/dev/null
    openssl pkcs8 -topk8 -nocrypt -in "$work/sec1.key" -out "$folder/$file.key"
    chmod 644 "$folder/$file.key"
}

certificate terminate/certs mqtt.example.com
certificate mixed/certs mqtt.example.com
certificate mixed/certs www.example.com shop.example.com
certificate reencrypt/certs cache.example.com
certificate reencrypt/certs app.example.com
certificate grpc/certs grpc.example.com
cp "$work/ca.crt" reencrypt/certs/backend-ca.crt

# Of the backends that keep their own TLS; the Gateways never see these.
certificate passthrough/backend db.example.com '*.db.example.com'
certificate mixed/backend vault.example.com
certificate reencrypt/backend redis.internal.example.com

# For clients.
cp "$work/ca.crt" ca.crt
