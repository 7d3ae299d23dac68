#!/usr/bin/env bash
# Reads every manifest of the official conformance suite with `tidegate check`: none may be invalid, none may make
# it stumble, and what is refused must be what refused.txt says (README.md tells how that list was checked).
#
#   conformance/manifests.sh TIDEGATE            compare
#   UPDATE=1 conformance/manifests.sh TIDEGATE   write refused.txt anew
set -euo pipefail
tidegate=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
version=$(cat "$here/gateway-api.version")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The module wants a newer Go than may be installed; any Go since 1.21 fetches it.
export GOTOOLCHAIN=go1.27.0 GOFLAGS=-mod=mod
suite=$(cd "$work" && go mod download -json "sigs.k8s.io/gateway-api/conformance@$version" | jq -r .Dir)

fill() {
  sed -e 's#{GATEWAY_CLASS_NAME}#tidegate#g' -e 's#{GATEWAY_CONTROLLER_NAME}#gateway.tidegate.io/controller#g' \
    -e 's#PLACEHOLDER_USABLE_ADDRS#192.0.2.1#g' -e 's#PLACEHOLDER_UNUSABLE_ADDRS#192.0.2.2#g' "$1"
}

# Every object that has a condition which is not as it should be, one line each.
refused() {
  jq -r '
    def bad: select((.type | IN("Conflicted", "OverlappingTLSConfig", "InsecureFrontendValidationMode", "PartiallyInvalid")) as $negative
                    | (.status == "False" and ($negative | not)) or (.status == "True" and $negative))
             | "\(.type)=\(.status) \(.reason)";
    .items[] | "\(.kind) \(.metadata.namespace // "")/\(.metadata.name)" as $object
    | (.status // {})
    | ((.conditions // [])[] | bad | "\($object): \(.)"),
      ((.listeners // [])[] | .name as $name | (.conditions // [])[] | bad | "\($object) listener \($name): \(.)"),
      (((.parents // []) + (.ancestors // []))[] | (.parentRef // .ancestorRef) as $parent
        | (.conditions // [])[] | bad | "\($object) at \($parent.name): \(.)")' "$1"
}

# The suite makes its certificates itself; one for all of them will do here, where nobody connects.
certificates() {
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=suite" -addext "subjectAltName=DNS:*.example.com" \
    -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
  indented() { sed 's/^/    /' "$1"; }
  for name in gateway-conformance-web-backend/certificate gateway-conformance-app-backend/tls-passthrough-checks-certificate \
    gateway-conformance-infra/tls-{validity-checks-certificate,validity-checks-client-certificate,validity-checks-per-port-client-certificate} \
    gateway-conformance-infra/tls-{checks-certificate,checks-client-certificate,passthrough-checks-certificate,terminate-checks-certificate}; do
    printf -- '---\napiVersion: v1\nkind: Secret\nmetadata:\n  namespace: %s\n  name: %s\ntype: kubernetes.io/tls\nstringData:\n' "${name%/*}" "${name#*/}"
    printf '  tls.crt: |\n'; indented "$work/cert.pem"; printf '  tls.key: |\n'; indented "$work/key.pem"
  done
  for name in gateway-conformance-web-backend/web-backend-cm gateway-conformance-infra/mismatch-ca-certificate \
    gateway-conformance-infra/tls-{validity-checks-ca-certificate,validity-checks-per-port-ca-certificate,checks-ca-certificate}; do
    printf -- '---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: %s\n  name: %s\ndata:\n' "${name%/*}" "${name#*/}"
    printf '  ca.crt: |\n'; indented "$work/cert.pem"
  done
}

count=0
: > "$work/refused"
fill "$suite/base/manifests.yaml" > "$work/base.yaml"
certificates >> "$work/base.yaml"
find "$suite/tests" -name '*.yaml' | LC_ALL=C sort > "$work/manifests"
for manifest in "$suite/base/manifests.yaml" $(cat "$work/manifests"); do
  name=${manifest#"$suite"/*/}
  mkdir -p "$work/$(dirname "$name")"
  fill "$manifest" > "$work/$name"
  files=("$work/$name" "$work/base.yaml")
  [ "$name" = manifests.yaml ] && files=("$work/base.yaml")
  status=0
  "$tidegate" check --cluster -o json "${files[@]}" > "$work/out.json" 2> "$work/err" || status=$?
  if [ "$status" -gt 1 ] || grep -q '^error\[' "$work/err"; then
    echo "$name: exit $status" >&2
    cat "$work/err" >&2
    exit 1
  fi
  refused "$work/out.json" | LC_ALL=C sort -u > "$work/$name.refused"
  # What the base manifests say is told once.
  if [ "$name" = manifests.yaml ]; then cp "$work/$name.refused" "$work/base.refused"; fi
  if [ "$name" = manifests.yaml ]; then cat "$work/$name.refused"; else LC_ALL=C comm -23 "$work/$name.refused" "$work/base.refused"; fi |
    sed "s#^#$name: #" >> "$work/refused"
  count=$((count + 1))
done
LC_ALL=C sort -u "$work/refused" > "$work/sorted"
if [ -n "${UPDATE:-}" ]; then
  cp "$work/sorted" "$here/refused.txt"
else
  diff -u "$here/refused.txt" "$work/sorted"
fi
echo "$count passed, 0 failed"
