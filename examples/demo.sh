#!/usr/bin/env bash
# What Tidegate makes of the examples: what is accepted, where flows would go, what a change would touch, and what a
# mistake looks like. `make demo` runs it.
set -euo pipefail
tidegate=$(realpath "${1:?usage: demo.sh TIDEGATE}")
cd "$(dirname "$0")/.."
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$'\e[1m' plain=$'\e[0m'
else
  bold='' plain=''
fi

say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
run() {
  say "\$ tidegate $*"
  # What is refused on purpose is part of the show; what cannot be done at all is not.
  "$tidegate" "$@" || [ $? -eq 1 ]
}

say "One port 443: TLS passed through, TLS terminated, and HTTPS, told apart by name."
run check examples/mixed
run explain examples/mixed --port 443 --sni vault.example.com
run explain examples/mixed --port 443 --sni www.example.com --host shop.example.com

say "The other examples are accepted as well."
for example in examples/*/; do run check "${example%/}"; done

say "Why is this route attached where it is?"
run explain examples/mixed tlsroute/vault

say "HTTP: the rule that matches, its filters and the backend."
run explain examples/http --port 8080 --host shop.example.com --path /static/logo.svg

say "TLS to a backend, as its policy says."
run explain examples/reencrypt --port 15432

say "TCP and UDP on one port number."
run explain examples/tcp-and-udp --port 5300 --udp

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
say "What would a change touch? Here the passthrough route gets another name."
cp -r examples/mixed "$scratch/new"
sed -i 's/vault\.example\.com/secrets.example.com/' "$scratch"/new/*.yaml
run diff examples/mixed "$scratch/new"

say "And this is what mistakes look like."
cat > "$scratch/broken.yaml" <<'YAML'
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: edge
spec:
  gatewayClassName: tidegate
  listeners:
    - name: secure
      port: 70000
      protocol: TLS
      hostnam: www.example.com
      allowedRoutes:
        namespaces:
          from: Everywhere
YAML
run check "$scratch/broken.yaml"
say "Now try it with your own manifests: $tidegate check DIR"
