#!/usr/bin/env bash
# In the cluster that is up, with Tidegate in it (install.sh): data planes on node ports and in the host's network, who
# has the number of replicas, sessions across replicas, an upgrade of the controller, and another CA for the link.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/cluster/settings.sh"
in=$CLUSTER/in.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

k() { "$in" kubectl --namespace planes "$@"; }
system() { "$in" kubectl --namespace tidegate-system "$@"; }
fail() {
  echo "planes: $*" >&2
  exit 1
}
prints() { # prints WANTED COMMAND...
  found=$("${@:2}") && [ "$found" = "$1" ]
}
# is WHAT WANTED COMMAND...: what a command prints.
is() { prints "${@:2}" || fail "$1 is '$found' and not '$2'"; }
soon() { wait_for 60 prints "${@:2}" 2>/dev/null || is "$@"; }
# pods GATEWAY FIELD: of its data planes, without those that are about to end.
pods() {
  k get pods --selector "gateway.networking.k8s.io/gateway-name=$1" -o json |
    jq --raw-output "[.items[] | select(.metadata.deletionTimestamp == null) | $2] | join(\" \")"
}
field() { k get "$1" -o jsonpath="$2"; }
parameters() { # parameters NAME PATCH
  k patch gatewayparameters "$1" --type=merge --patch "$2" >/dev/null
}
answers() { "$in" curl --silent --max-time 2 --output /dev/null --write-out '%{http_code}' "$@"; }

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=web.example.com \
  -addext subjectAltName=DNS:web.example.com -keyout "$work/web.key" -out "$work/web.crt" 2>/dev/null
# What an earlier run changed is not to be found.
"$in" kubectl delete namespace planes --ignore-not-found --timeout=3m >/dev/null
"$in" kubectl apply --server-side --filename "$here/planes.yaml" >/dev/null
k create secret tls web --cert "$work/web.crt" --key "$work/web.key" --dry-run=client -o yaml | k apply --server-side --filename - >/dev/null
k wait gateway/node-port gateway/host --for=condition=Programmed --timeout=2m >/dev/null
k rollout status deployment/load --timeout=2m >/dev/null

on_node_ports() {
  is "the Gateway's address" "$NODE_ADDRESS" field gateway/node-port '{.status.addresses[*].value}'
  soon "the answer on the node's port" 200 answers "http://$NODE_ADDRESS:$(field service/tidegate-node-port '{.spec.ports[?(@.port==80)].nodePort}')/"
}

in_the_hosts_network() {
  is "the Gateway's address" "$NODE_ADDRESS" field gateway/host '{.status.addresses[*].value}'
  soon "the answer on the node" 200 answers "http://$NODE_ADDRESS:81/"
  # Root, and nothing else that root may do.
  local state
  state=$(among_processes cat "/proc/$(container_process planes "$(pods host .metadata.name)")/status")
  grep -qP '^CapEff:\t0+400$' <<<"$state" || fail "in the host's network it can do more than bind low ports"
  k get poddisruptionbudgets tidegate-host >/dev/null 2>&1 && fail "a DaemonSet has no PodDisruptionBudget"
  # A roll-out lets the old Pod go before the new one can have its port.
  k rollout restart daemonset/tidegate-host >/dev/null
  k rollout status daemonset/tidegate-host --timeout=2m >/dev/null
  soon "the answer on the node" 200 answers "http://$NODE_ADDRESS:81/"
}

# Sessions that one replica began, another goes on with: tickets of TLS and tokens of HTTP.
sessions() {
  local one other first
  read -r one other <<<"$(pods node-port .status.podIP)"
  connect=(openssl s_client -servername web.example.com -CAfile "$work/web.crt")
  for version in -tls1_2 -tls1_3; do
    # Tickets of TLS 1.3 come behind the handshake: something has to be read.
    printf 'GET / HTTP/1.1\r\nHost: web.example.com\r\nConnection: close\r\n\r\n' |
      "$in" "${connect[@]}" "$version" -ign_eof -connect "$one:443" -sess_out "$work/session" >"$work/said" 2>&1
    grep -q '^New' "$work/said" || fail "the first handshake with $version was none"
    "$in" "${connect[@]}" "$version" -connect "$other:443" -sess_in "$work/session" </dev/null >"$work/said" 2>&1 || true
    grep -q '^Reused' "$work/said" || fail "the other data plane does not take up sessions of $version"
  done
  "$in" curl --silent --max-time 2 --dump-header "$work/headers" --output /dev/null "http://$one/"
  first=$(sed -n 's/^set-cookie: \(session=[^;]*\).*/\1/ip' "$work/headers" | tr -d '\r')
  [ -n "$first" ] || fail "no session was begun"
  for _ in $(seq 10); do
    "$in" curl --silent --max-time 2 --dump-header "$work/headers" --output /dev/null --cookie "$first" "http://$other/"
    # Whoever does not know the session begins another.
    grep -qi '^set-cookie: session=' "$work/headers" && fail "the other data plane does not know the session"
  done
  return 0
}

who_has_the_replicas() {
  local replicas=(field deployment/tidegate-node-port '{.spec.replicas}') before
  k scale deployment/tidegate-node-port --replicas=1 >/dev/null
  soon "the number that parameters say" 2 "${replicas[@]}"
  before=$(written)
  parameters node-port '{"spec": {"workload": {"replicas": null}}}'
  wait_for 60 is_written_anew "$before"
  is "the number that nobody says any more" 2 "${replicas[@]}"
  k scale deployment/tidegate-node-port --replicas=3 >/dev/null
  parameters node-port '{"spec": {"autoscaling": {"minReplicas": 2, "maxReplicas": 5}}}'
  soon "the autoscaler's bound" 5 field horizontalpodautoscaler/tidegate-node-port '{.spec.maxReplicas}'
  is "the number that an autoscaler has" 3 "${replicas[@]}"
  parameters node-port '{"spec": {"workload": {"replicas": 2}, "autoscaling": null}}'
  soon "the number that parameters say again" 2 "${replicas[@]}"
  wait_for 60 no_autoscaler
}
written() { field deployment/tidegate-node-port '{.metadata.annotations.gateway\.tidegate\.io/written}'; }
is_written_anew() { [ "$(written)" != "$1" ]; }
no_autoscaler() { ! k get horizontalpodautoscaler tidegate-node-port; }

# What parameters no longer say is taken back.
what_is_taken_back() {
  local policy=(field service/tidegate-node-port '{.spec.externalTrafficPolicy}')
  parameters node-port '{"spec": {"service": {"externalTrafficPolicy": "Local"}}}'
  soon "the policy that was asked for" Local "${policy[@]}"
  parameters node-port '{"spec": {"service": {"externalTrafficPolicy": null}}}'
  soon "the policy that nobody asks for any more" Cluster "${policy[@]}"
}

# Another controller with the same image for data planes: these are not touched. With another one they are rolled.
an_upgrade() {
  local before
  k rollout status deployment/tidegate-node-port --timeout=2m >/dev/null
  wait_for 120 two_pods
  before=$(pods node-port .metadata.uid)
  "$in" helm upgrade tidegate "$PROJECT/charts/tidegate" --namespace tidegate-system --reuse-values \
    --set controller.logLevel=warn --set dataPlane.imagePullPolicy=Never --wait --timeout 2m >/dev/null
  a_route_is_served upgrade
  is "the data planes" "$before" pods node-port .metadata.uid
  ctr --address "$STATE/containerd.sock" --namespace k8s.io images tag --force \
    "$(ctr --address "$STATE/containerd.sock" --namespace k8s.io images ls -q | awk '/\/tidegate:/ && !found++')" docker.io/library/tidegate:other >/dev/null
  "$in" helm upgrade tidegate "$PROJECT/charts/tidegate" --namespace tidegate-system --reuse-values \
    --set dataPlane.image=tidegate:other --wait --timeout 2m >/dev/null
  soon "the image" tidegate:other field deployment/tidegate-node-port '{.spec.template.spec.containers[0].image}'
  k rollout status deployment/tidegate-node-port --timeout=2m >/dev/null
}
two_pods() { [ "$(pods node-port .metadata.uid | wc -w)" = 2 ]; }

# Whoever leads follows the cluster and has the data planes' ears.
a_route_is_served() { # a_route_is_served NAME
  k apply --server-side --filename - >/dev/null <<MANIFEST
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: $1}
spec:
  parentRefs: [{name: node-port, sectionName: http}]
  hostnames: [$1.example.com]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {statusCode: 302, hostname: elsewhere.example.com}}]}]
MANIFEST
  local ip
  for ip in $(pods node-port .status.podIP); do
    soon "the answer of $ip" 302 answers --header "Host: $1.example.com" "http://$ip/"
  done
  k delete httproute "$1" >/dev/null
}

# Another CA for the link is trusted for a day before it signs. It lasts for a year, so its end tells since when it is
# known: two certificates with one key are the same CA a day apart.
another_ca() {
  openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$work/next.key"
  next_ca 365
  restart_controller
  soon "how many CAs data planes trust" 2 trusted_by_data_planes
  a_route_is_served both
  next_ca 363
  restart_controller
  soon "who signs" "$(base64 -w0 "$work/next.crt")" system get secret tidegate-link-ca -o jsonpath='{.data.ca\.crt}'
  a_route_is_served turned
  is "how many CAs data planes trust" 2 trusted_by_data_planes
  is "the Gateway" True field gateway/node-port '{.status.conditions[?(@.type=="Programmed")].status}'
}
next_ca() { # next_ca DAYS
  openssl req -x509 -key "$work/next.key" -days "$1" -subj "/CN=next" \
    -addext keyUsage=critical,keyCertSign,cRLSign -out "$work/next.crt" 2>/dev/null
  system patch secret tidegate-link-ca --type=merge --patch \
    "{\"data\": {\"next.crt\": \"$(base64 -w0 "$work/next.crt")\", \"next.key\": \"$(base64 -w0 "$work/next.key")\"}}" >/dev/null
}
restart_controller() {
  system rollout restart deployment/tidegate >/dev/null
  system rollout status deployment/tidegate --timeout=2m >/dev/null
}
trusted_by_data_planes() { field configmap/tidegate-node-port '{.data.ca\.crt}' | grep -c BEGIN; }

if [ $# = 0 ]; then
  set -- on_node_ports in_the_hosts_network sessions who_has_the_replicas what_is_taken_back an_upgrade another_ca
fi
for part in "$@"; do
  begun=$SECONDS
  "$part"
  echo "planes: ${part//_/ }: as it should be, after $((SECONDS - begun)) s"
done
