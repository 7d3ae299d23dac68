#!/usr/bin/env bash
# In the cluster that is up, with Tidegate in it (install.sh): certificates that the controller itself makes. A real CA
# (Pebble, strict, with bad nonces) comes to the data planes to have names proved, a leader is killed in the midst of an
# order, and the embedded CA serves Gateways and ListenerSets. Clients verify what they are shown.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/cluster/settings.sh"
in=$CLUSTER/in.sh
tools=$PROJECT/.cache/tools/certs
tidegate=$PROJECT/target/$([ "${PROFILE:-dev}" = dev ] && echo debug || echo "$PROFILE")/tidegate
work=$(mktemp -d)
started=()
revision=

leave() {
  local outcome=$?
  for pid in "${started[@]}"; do
    kill -CONT "$pid" 2>/dev/null || true
    kill "$pid" 2>/dev/null || true
  done
  if [ "$outcome" != 0 ]; then
    k get gateways,listenersets,httproutes,secrets,events -o yaml >"$LOG/certs-objects.yaml" 2>&1 || true
    cp "$work/pebble.log" "$LOG/certs-pebble.log" 2>/dev/null || true
    system logs --selector app.kubernetes.io/name=tidegate --tail=-1 --prefix >"$LOG/certs-controller.log" 2>&1 || true
  fi
  # What comes after in this cluster finds the controller as it was: without issuers, and without their rights.
  if [ -n "$revision" ]; then
    "$in" helm rollback tidegate "$revision" --namespace tidegate-system >/dev/null || outcome=1
    system rollout status deployment/tidegate --timeout=2m >/dev/null || outcome=1
  fi
  rm -rf "$work"
  exit "$outcome"
}
trap leave EXIT
trap 'exit 130' INT TERM

k() { "$in" kubectl --namespace certs "$@"; }
system() { "$in" kubectl --namespace tidegate-system "$@"; }
fail() {
  echo "certs: $*" >&2
  exit 1
}

# A CA that runs on the node, with a DNS server that says where each name leads.
start_pebble() {
  mkdir -p "$tools"
  (cd "$PROJECT/tools/certs" &&
    go build -o "$tools/" github.com/letsencrypt/pebble/v2/cmd/pebble github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv)
  local ec=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc)
  openssl req -x509 "${ec[@]}" -subj "/CN=of the test" -days 1 -keyout "$work/ca.key" -out "$work/ca.crt" 2>/dev/null
  openssl req -x509 "${ec[@]}" -subj "/CN=pebble" -days 1 -CA "$work/ca.crt" -CAkey "$work/ca.key" \
    -addext "subjectAltName=IP:$NODE_ADDRESS" -addext basicConstraints=critical,CA:FALSE \
    -keyout "$work/server.key" -out "$work/server.crt" 2>/dev/null
  cat >"$work/pebble.json" <<CONFIG
{"pebble": {
  "listenAddress": "$NODE_ADDRESS:14000", "managementListenAddress": "$NODE_ADDRESS:15000",
  "certificate": "$work/server.crt", "privateKey": "$work/server.key", "httpPort": 80, "tlsPort": 443,
  "retryAfter": {"authz": 1, "order": 1},
  "profiles": {"default": {"description": "usual", "validityPeriod": 7776000}}
}}
CONFIG
  "$in" "$tools/pebble-challtestsrv" -defaultIPv4 127.0.0.1 -defaultIPv6 "" -http01 "" -https01 "" -tlsalpn01 "" -doh "" \
    -dnsserver "$NODE_ADDRESS:8053" -management "$NODE_ADDRESS:8055" >"$work/dns.log" 2>&1 &
  started+=($!)
  PEBBLE_VA_NOSLEEP=1 PEBBLE_WFE_NONCEREJECT=15 "$in" "$tools/pebble" -strict -dnsserver "$NODE_ADDRESS:8053" \
    -config "$work/pebble.json" >"$work/pebble.log" 2>&1 &
  pebble=$!
  started+=("$pebble")
  wait_for 20 "$in" curl --silent --fail --cacert "$work/ca.crt" --output "$work/acme-root.crt" "https://$NODE_ADDRESS:15000/roots/0"
}
leads_to() { # leads_to NAME ADDRESS
  "$in" curl --silent --fail --data "{\"host\": \"$1.\", \"addresses\": [\"$2\"]}" "http://$NODE_ADDRESS:8055/add-a"
}
orders() { grep -c "Added order" "$work/pebble.log" || true; }

route() { # route NAME GATEWAY
  k apply --server-side --filename - >/dev/null <<MANIFEST
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: $1}
spec:
  parentRefs: [{name: $2}]
  hostnames: [$1.certs.example, $1.example.org]
  rules: [{backendRefs: [{name: load, port: 8080}]}]
MANIFEST
}
address() { k get gateway "$1" -o jsonpath='{.status.addresses[0].value}'; }
# A client that trusts this root alone gets an answer for this name.
verified() { # verified ROOT NAME ADDRESS [PORT]
  "$in" curl --silent --fail --max-time 3 --cacert "$1" --resolve "$2.certs.example:${4:-443}:$3" \
    --output /dev/null "https://$2.certs.example:${4:-443}/"
}
served() { # served ROOT NAME ADDRESS [PORT]
  wait_for 60 verified "$@" || fail "$2.certs.example has no certificate that can be verified"
}
owner() { k get secret "$1" -o jsonpath='{.metadata.ownerReferences[*].kind}/{.metadata.ownerReferences[*].name}'; }
is_issued() { # is_issued GATEWAY LISTENER: every name of it, says its condition
  k get gateway "$1" -o json | jq -e --arg listener "$2" \
    '.status.listeners[] | select(.name == $listener) | .conditions[] | select(.type == "gateway.tidegate.io/CertificatesIssued") | .status == "True"'
}
leader() { system get lease tidegate -o jsonpath='{.spec.holderIdentity}'; }
leads_anew() { [ -n "$(leader)" ] && system get pod "$(leader)" -o jsonpath='{.status.containerStatuses[0].ready}' | grep -q true; }

# What an earlier run left is of another CA, and a controller reads who vouches for it when it starts.
system scale deployment/tidegate --replicas=0 >/dev/null
system wait pod --selector app.kubernetes.io/name=tidegate --for=delete --timeout=1m >/dev/null
system delete secrets --selector gateway.tidegate.io/certificates --ignore-not-found >/dev/null
start_pebble
revision=$("$in" helm history tidegate --namespace tidegate-system --output json | jq '.[-1].revision')
system create secret generic acme-ca --from-file=ca.crt="$work/ca.crt" --dry-run=client -o yaml | system apply --server-side --force-conflicts --filename - >/dev/null
"$in" helm upgrade tidegate "$PROJECT/charts/tidegate" --namespace tidegate-system --reuse-values \
  --set 'certificates.issuers={embedded,acme}' --set certificates.acme.caSecret=acme-ca \
  --set "certificates.acme.directory=https://$NODE_ADDRESS:14000/dir" --set controller.replicas=2 \
  --set certificates.acme.accounts.second.caSecret=acme-ca \
  --set "certificates.acme.accounts.second.directory=https://$NODE_ADDRESS:14000/dir" \
  --set 'controller.extraArgs={--gather-names=1s}' >/dev/null
system scale deployment/tidegate --replicas=2 >/dev/null
system rollout status deployment/tidegate --timeout=2m >/dev/null
# A Secret that somebody has: it is used as it is.
"$in" kubectl create namespace certs --dry-run=client -o yaml | "$in" kubectl apply --server-side --filename - >/dev/null
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -subj /CN=theirs -days 2 \
  -addext subjectAltName=DNS:inside.certs.example -keyout "$work/theirs.key" -out "$work/theirs.crt" 2>/dev/null
k create secret tls theirs --cert="$work/theirs.crt" --key="$work/theirs.key" --dry-run=client -o yaml | k apply --server-side --filename - >/dev/null
theirs=$(k get secret theirs -o jsonpath='{.metadata.resourceVersion}')
k apply --server-side --filename "$here/certs.yaml" >/dev/null
k wait gateway/web gateway/alpn gateway/inside --for=condition=Programmed --timeout=2m >/dev/null
k rollout status deployment/load deployment/tidegate-web --timeout=2m >/dev/null

echo "== embedded"
inside=$(address inside)
"$in" "$tidegate" certs root >"$work/root.crt" 2>/dev/null
served "$work/root.crt" inside "$inside"
served "$work/root.crt" set "$inside" 445
[ "$(owner inside)" = Gateway/inside ] || fail "Secret inside is of $(owner inside)"
[ "$(owner more)" = ListenerSet/more ] || fail "Secret more is of $(owner more)"
wait_for 20 is_issued inside https || fail "the condition of listener https is not true"
verified "$work/theirs.crt" inside "$inside" 444 || fail "somebody's own certificate is not served"

echo "== acme"
web=$(address web)
# Each name is proved at another of the two data planes.
mapfile -t planes < <(k get pods --selector gateway.networking.k8s.io/gateway-name=web -o jsonpath='{range .items[*]}{.status.podIP}{"\n"}{end}')
[ "${#planes[@]}" = 2 ] || fail "there are ${#planes[@]} data planes"
leads_to one.certs.example "${planes[0]}"
leads_to two.certs.example "${planes[1]}"
leads_to alpn.certs.example "$(address alpn)"
# The dry run asks nobody: what would be asked for if the issuer were switched on.
"$in" "$tidegate" certs plan --gateway alpn --namespace certs --certs acme >"$work/plan" 2>&1 || fail "certs plan: $(cat "$work/plan")"
grep -q "Secret certs/alpn of acme: alpn.certs.example" "$work/plan" || fail "certs plan says: $(cat "$work/plan")"
! grep -q "not known here" "$work/plan" || fail "certs plan misses something: $(cat "$work/plan")"
[ "$(orders)" = 0 ] || fail "the dry run has asked for something"
k annotate --overwrite gateway alpn gateway.tidegate.io/issuer=acme gateway.tidegate.io/acme-account=second >/dev/null
route one web
route two web
served "$work/acme-root.crt" one "$web"
served "$work/acme-root.crt" two "$web"
served "$work/acme-root.crt" alpn "$(address alpn)"
[ "$(owner web)" = Gateway/web ] || fail "Secret web is of $(owner web)"
# Each by the account that its Gateway names.
made_by() { k get secret "$1" -o jsonpath='{.metadata.annotations.gateway\.tidegate\.io/issued-by}'; }
[ "$(made_by web), $(made_by alpn)" = "acme, acme (second)" ] || fail "Secrets are made by $(made_by web), $(made_by alpn)"
"$in" "$tidegate" certs list --gateway web --namespace certs >"$work/list" || fail "certs list: $(cat "$work/list")"
grep -q "certs/web *acme .*one.certs.example, two.certs.example" "$work/list" || fail "certs list says: $(cat "$work/list")"
# And what there is, with what is left out: its exit status says that something is.
outcome=0
"$in" "$tidegate" certs plan --gateway web --namespace certs >"$work/plan" 2>&1 || outcome=$?
for words in "Secret certs/web is there until" "not one.example.org of HTTPRoute certs/one"; do
  if [ "$outcome" != 1 ] || ! grep -q "$words" "$work/plan"; then
    fail "certs plan ends with $outcome and says: $(cat "$work/plan")"
  fi
done
# Outside the domains that the owner allows: never asked for.
! grep -q "example.org" "$work/pebble.log" || fail "a name was asked for that is not allowed"

echo "== a leader is killed in the midst of an order"
before=$(orders)
leads_to three.certs.example "$web"
order_is_stored() { k get secrets --selector gateway.tidegate.io/certificates=order -o name | grep -q .; }
route three web
wait_for 30 order_is_stored || fail "no order was stored"
kill -STOP "$pebble"
killed=$(leader)
process=$(container_process tidegate-system "$killed")
recorded=$(k get secrets --selector gateway.tidegate.io/certificates=order -o json |
  jq -r '[.items[].data.document | @base64d | fromjson | .url // empty] | length')
among_processes kill -KILL "$process"
kill -CONT "$pebble"
wait_for 60 leads_anew
served "$work/acme-root.crt" three "$web"
made=$(($(orders) - before))
# One that was recorded is gone on with; in the window before, it is asked for once more.
[ "$made" -le $((2 - (recorded > 0 ? 1 : 0))) ] || fail "$made orders were made, $recorded was recorded"
echo "certs: $made orders for one certificate, of which $recorded was recorded when the leader was killed"
wait_for 20 is_issued web https || fail "the condition of listener https is not true"
no_order_is_left() { ! order_is_stored; }
wait_for 20 no_order_is_left || fail "an order is left"

echo "== what is deleted, and what is not"
[ "$(k get secret theirs -o jsonpath='{.metadata.resourceVersion}')" = "$theirs" ] || fail "somebody's own Secret was written"
k delete gateway web alpn inside >/dev/null
k delete listenerset more >/dev/null
nothing_is_left() { [ -z "$(k get secrets --selector gateway.tidegate.io/certificates -o name)" ]; }
wait_for 60 nothing_is_left || fail "Secrets are left: $(k get secrets -o name | xargs)"
k get secret theirs >/dev/null
"$in" kubectl delete namespace certs --timeout=1m >/dev/null
echo "certs: all served and verified"
