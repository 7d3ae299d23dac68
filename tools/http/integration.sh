#!/usr/bin/env bash
# Programs that Go builds, through Tidegate: h2spec over TLS and in plain text, gRPC's own client, and grpcurl. Anything
# that fails ends it: tools/http/integration.sh TIDEGATE
set -euo pipefail
tidegate=$(realpath "$1")
cd "$(dirname "$0")"
work=$(mktemp -d)
: > "$work/serve.log"
processes=()
finish() {
  status=$?
  for process in "${processes[@]}"; do
    kill "$process" 2> /dev/null || true
    wait "$process" 2> /dev/null || true
  done
  if [ "$status" != 0 ]; then
    tail -n 5 "$work/tidegate.log" "$work/access.log" >&2 || true
  fi
  rm -rf "$work"
}
trap finish EXIT
# For whatever hangs.
patience=180

# What is there already is not built again.
tools=$PWD/../../.cache/tools/http
mkdir -p "$tools"
go build -o "$tools/" ./serve ./calls ./spec github.com/fullstorydev/grpcurl/cmd/grpcurl

# A loopback address that belongs to this run alone: any port of it is free.
ip=127.$((1 + $$ % 126)).$((RANDOM % 254)).$((1 + RANDOM % 253))
host=calls.example.test
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$host" \
  -addext "subjectAltName=DNS:$host,IP:$ip" -keyout "$work/key.pem" -out "$work/cert.pem" 2> /dev/null

"$tools/serve" > "$work/serve.log" 2>&1 &
processes+=($!)
until grep -q ' ' "$work/serve.log"; do
  kill -0 "${processes[0]}"
  sleep 0.05
done
read -r calls pages < "$work/serve.log"

mkdir "$work/manifests"
cp "$work/cert.pem" "$work/key.pem" "$work/manifests/"
cat > "$work/manifests/all.yaml" <<YAML
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gate}
spec:
  gatewayClassName: tidegate
  listeners:
  - {name: plain, port: 8080, protocol: HTTP}
  - {name: secure, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: certificate}]}}
---
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata:
  name: certificate
  annotations: {gateway.tidegate.io/files: "tls.crt=cert.pem, tls.key=key.pem"}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: pages}
spec:
  parentRefs: [{name: gate}]
  rules:
  - backendRefs: [{name: pages, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: calls}
spec:
  parentRefs: [{name: gate}]
  hostnames: [$host]
  rules:
  - backendRefs: [{name: calls, port: 80}]
---
apiVersion: v1
kind: Service
metadata:
  name: pages
  annotations: {gateway.tidegate.io/endpoints: "127.0.0.1:$pages"}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata:
  name: calls
  annotations: {gateway.tidegate.io/endpoints: "127.0.0.1:$calls"}
spec: {ports: [{port: 80}]}
YAML
"$tidegate" run "$work/manifests" --bind "$ip" --admin "$ip:9900" --workers 2 --access-log "$work/access.log" \
  --drain 1s > "$work/tidegate.log" 2>&1 &
processes+=($!)
until curl --silent --fail --noproxy '*' "http://$ip:9900/readyz" > /dev/null; do
  kill -0 "${processes[1]}"
  sleep 0.05
done

step() {
  echo "== $1" >&2
  shift
  if ! timeout "$patience" "$@" > "$work/step.log" 2>&1; then
    grep -a -E '^(FAILED|PASSED|no such)' "$work/step.log" >&2 || true
    tail -n 3 "$work/step.log" >&2
    return 1
  fi
  tail -n 1 "$work/step.log"
}

step "h2spec over TLS" "$tools/spec" "$ip:8443" / h2spec-exceptions.txt tls
step "h2spec in plain text" "$tools/spec" "$ip:8080" / h2spec-exceptions.txt
step "gRPC over TLS" "$tools/calls" "$ip:8443" "$work/cert.pem" "$host"

# What it says must have these words in it.
grpcurl() {
  echo "== grpcurl: $1" >&2
  local words=$2
  shift 2
  timeout "$patience" "$tools/grpcurl" -cacert "$work/cert.pem" -authority "$host" "$@" > "$work/step.log" 2>&1 || true
  if ! grep -q -- "$words" "$work/step.log"; then
    echo "no '$words':" >&2
    cat "$work/step.log" >&2
    return 1
  fi
}
service=grpc.testing.TestService
grpcurl "reflection lists" "^$service\$" "$ip:8443" list
grpcurl "reflection describes" 'rpc FullDuplexCall ( stream' "$ip:8443" describe "$service"
grpcurl "unary" '"body": "AAAAAAAA"' -d '{"responseSize": 6}' "$ip:8443" "$service/UnaryCall"
grpcurl "a stream from the server" '"body": "AAAA"' -d '{"responseParameters": [{"size": 3}, {"size": 2}]}' \
  "$ip:8443" "$service/StreamingOutputCall"
grpcurl "a stream to the server" '"aggregatedPayloadSize": 5' \
  -d '{"payload": {"body": "AAAA"}} {"payload": {"body": "AAA="}}' "$ip:8443" "$service/StreamingInputCall"
grpcurl "both" '"body": "AAAA"' -d '{"responseParameters": [{"size": 3}]} {"responseParameters": [{"size": 2}]}' \
  "$ip:8443" "$service/FullDuplexCall"
grpcurl "a status with its message" 'Message: not today' -d '{"responseStatus": {"code": 8, "message": "not today"}}' \
  "$ip:8443" "$service/UnaryCall"
grpcurl "in plain text" "^$service\$" -plaintext "$ip:8080" list
grpcurl "what nobody has" 'Code: Unimplemented' -d '{}' "$ip:8443" "$service/UnimplementedCall"
echo "grpcurl: 9 passed, 0 failed"
