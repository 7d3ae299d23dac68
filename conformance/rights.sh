#!/usr/bin/env bash
# In the cluster that is up, with Tidegate in it (install.sh): what the accounts of controller and data planes may do
# must be what rights.txt says, their processes must be as powerless as docs/kubernetes.md tells, and keys must be in
# Secrets alone.
#
#   conformance/rights.sh            compare
#   UPDATE=1 conformance/rights.sh   write the list anew
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/cluster/settings.sh"
in=$CLUSTER/in.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "rights: $*" >&2
  exit 1
}

# What the API server says that an account may do; the same for everybody who is logged in is left out.
rights() { # rights NAMESPACE ACCOUNT-NAMESPACE ACCOUNT
  local everybody=$work/everybody
  "$in" kubectl auth can-i --list --no-headers --namespace "$1" --as=nobody --as-group=system:serviceaccounts \
    --as-group=system:authenticated | tr -s ' ' | sort >"$everybody"
  "$in" kubectl auth can-i --list --no-headers --namespace "$1" --as="system:serviceaccount:$2:$3" | tr -s ' ' | sort |
    comm -23 - "$everybody"
}

# Both take restricted Pods only: a controller that is started anew is one.
"$in" kubectl label namespace tidegate-system pod-security.kubernetes.io/enforce=restricted --overwrite >/dev/null
"$in" kubectl --namespace tidegate-system rollout restart deployment/tidegate >/dev/null
"$in" kubectl --namespace tidegate-system rollout status deployment/tidegate --timeout=2m >/dev/null
"$in" kubectl apply --server-side --filename "$here/faults.yaml" >/dev/null
"$in" kubectl --namespace faults wait gateway/edge --for=condition=Programmed --timeout=2m >/dev/null

{
  echo "# The controller, in every namespace"
  rights default tidegate-system tidegate
  echo
  echo "# The controller, in its own namespace besides"
  rights tidegate-system tidegate-system tidegate | comm -23 - <(rights default tidegate-system tidegate)
  echo
  echo "# A data plane, in its own namespace"
  rights faults faults tidegate-edge
} >"$work/found"
if [ -n "${UPDATE:-}" ]; then
  cp "$work/found" "$here/rights.txt"
elif ! diff -u "$here/rights.txt" "$work/found"; then
  fail "these are not the rights of rights.txt"
fi

# powerless NAMESPACE POD: what the kernel says of its process.
powerless() {
  local process state wanted
  process=$(container_process "$1" "$2")
  state=$(among_processes cat "/proc/$process/status")
  for wanted in 'Uid:\t65532\t65532\t65532\t65532' 'CapPrm:\t0+' 'CapEff:\t0+' 'CapBnd:\t0+' 'NoNewPrivs:\t1' 'Seccomp:\t2'; do
    grep -qP "^$wanted\$" <<<"$state" || fail "$1/$2 is not $wanted: $(grep "^${wanted%%:*}:" <<<"$state")"
  done
  among_processes cat "/proc/$process/mountinfo" | awk '$5 == "/" && $6 ~ /(^|,)ro(,|$)/ { readonly = 1 } END { exit !readonly }' ||
    fail "$1/$2 has a root that can be written to"
}
controller=$("$in" kubectl --namespace tidegate-system get pods -o jsonpath='{.items[0].metadata.name}')
plane=$("$in" kubectl --namespace faults get pods --selector gateway.networking.k8s.io/gateway-name=edge -o jsonpath='{.items[0].metadata.name}')
powerless tidegate-system "$controller"
powerless faults "$plane"

# The one token that a data plane has is for the link, and the API server does not take it.
root=/proc/$(container_process faults "$plane")/root
if among_processes test -e "$root/var/run/secrets"; then fail "$plane has a token for the API server"; fi
answer=$({ printf 'Authorization: Bearer '; among_processes cat "$root/var/run/tidegate/token"; } |
  "$in" curl --silent --cacert "$STATE/pki/ca.crt" --output /dev/null --write-out '%{http_code}' \
    --header @- "https://$NODE_ADDRESS:6443/api/v1/namespaces")
[ "$answer" = 401 ] || fail "the API server answers a data plane's token with $answer"
# A listener whose key travels all the way, and what every key of the cluster looks like: the first line of its PEM (later
# ones may be its public half, which certificates have as well), the base64 that its Secret has, and the hexadecimal
# digits of what is no text.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 2 -subj /CN=keys.example.com \
  -keyout "$work/tls.key" -out "$work/tls.crt" 2>/dev/null
"$in" kubectl --namespace faults create secret tls keys --key "$work/tls.key" --cert "$work/tls.crt" --dry-run=client -o yaml |
  "$in" kubectl apply --server-side --filename - >/dev/null
"$in" kubectl apply --server-side --filename - >/dev/null <<GATEWAY
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: keys, namespace: faults}
spec:
  gatewayClassName: tidegate
  listeners:
    - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: keys}]}}
GATEWAY
"$in" kubectl --namespace faults wait gateway/keys --for=condition=Programmed --timeout=2m >/dev/null
"$in" kubectl get secrets --all-namespaces -o json |
  jq --raw-output '.items[].data // {} | to_entries[] | select(.key | endswith(".key")) | .value' >"$work/keys"
while read -r key; do
  if base64 --decode <<<"$key" | grep -q -- '-----BEGIN'; then
    base64 --decode <<<"$key" | awk '!/^-----/ && !seen++'
    # Behind the words that all PEM begins with.
    printf '%s\n' "${key:80:60}"
  else
    printf '%s\n' "${key%%=*}"
    base64 --decode <<<"$key" | od -An -v -tx1 | tr -d ' \n'
    echo
  fi
done <"$work/keys" | grep -E '.{32}' | sort -u >"$work/marks"
# The link's CA, its sessions.key and the listener's are among them, or this would find nothing.
for name in ca.key sessions.key; do
  "$in" kubectl --namespace tidegate-system get secret tidegate-link-ca -o json | jq --exit-status --arg name "$name" '.data[$name]' >/dev/null ||
    fail "the Secret tidegate-link-ca has no $name"
done
[ "$(sed -n 2p "$work/tls.key")" = "$(grep -xF -- "$(sed -n 2p "$work/tls.key")" "$work/marks")" ] || fail "the listener's key is not looked for"
{
  find "$LOG/pods" -type f -exec cat {} +
  "$in" kubectl get configmaps,events,pods,deployments,daemonsets,services,serviceaccounts --all-namespaces -o json
  "$in" kubectl get gatewayclasses,gateways,listenersets,httproutes,grpcroutes,tlsroutes,tcproutes,udproutes,backendtlspolicies,gatewayparameters --all-namespaces -o json
} >"$work/told"
grep -q '"tidegate-keys"' "$work/told" || fail "the Gateway's objects are not looked through"
if grep -qF --file "$work/marks" "$work/told" || grep -qE 'BEGIN [A-Z ]*PRIVATE KEY' "$work/told"; then
  # Not the lines themselves, which would be told once more.
  fail "a key is in a log, a ConfigMap, an Event or a status: $(grep -cF --file "$work/marks" "$work/told") lines"
fi
"$in" kubectl --namespace faults delete gateway/keys secret/keys >/dev/null

echo "rights: $(grep -c . "$here/rights.txt") lines as they should be; both kinds of Pods are powerless; $(wc -l <"$work/marks") marks of keys are in no log, ConfigMap, Event or status"
