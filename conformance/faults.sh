#!/usr/bin/env bash
# In the cluster that is up, with Tidegate in it (install.sh): a Gateway with two data planes is kept busy through its
# Service, and meanwhile one thing after another is taken away. Clients must notice nothing, except those whose own
# data plane is killed; statuses must be as they were, times included; and what was asked for meanwhile must be served.
#
#   conformance/faults.sh              all
#   conformance/faults.sh proxy ...  some, by name
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/cluster/settings.sh"
in=$CLUSTER/in.sh
work=$(mktemp -d)
AWAY=20 # seconds that the API server and etcd are away

leave() {
  # Whoever was stopped goes on, even after a failure.
  if [ -n "${stopped:-}" ]; then kill -CONT "$stopped" 2>/dev/null || true; fi
  if [ -n "${load:-}" ]; then kill "$load" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM

k() { "$in" kubectl --namespace faults "$@"; }
system() { "$in" kubectl --namespace tidegate-system "$@"; }
fail() {
  echo "faults: $*" >&2
  exit 1
}

# What everybody may see of Gateway API's objects, without what changes with every write.
statuses() {
  "$in" kubectl get gatewayclasses,gateways,httproutes,tcproutes,tlsroutes -A -o json |
    jq -S '[.items[] | select(.metadata.name | startswith("probe-") | not) | {kind, name: .metadata.name, status}]'
}
as_before() { statuses >"$work/now" && cmp -s "$work/before" "$work/now"; }

# A route of its own for each fault: asked for while something is away, served afterwards.
probe() { # probe NAME
  k apply --server-side --filename - >/dev/null <<MANIFEST
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: probe-$1}
spec:
  parentRefs: [{name: edge, sectionName: http}]
  hostnames: [$1.example.com]
  rules: [{backendRefs: [{name: load, port: 8080}]}]
MANIFEST
}
is_served() { # is_served NAME STATUS: at both data planes
  local ip
  for ip in $(plane_ips); do
    [ "$("$in" curl --silent --max-time 2 --output /dev/null --write-out '%{http_code}' --header "Host: $1.example.com" "http://$ip/")" = "$2" ] || return 1
  done
}
plane_ips() { k get pods --selector gateway.networking.k8s.io/gateway-name=edge -o jsonpath='{.items[*].status.podIP}'; }
both_are_ready() {
  k get pods --selector gateway.networking.k8s.io/gateway-name=edge -o json |
    jq -e '[.items[] | select(.metadata.deletionTimestamp == null) | .status.conditions[]? | select(.type == "Ready" and .status == "True")] | length == 2' &&
    [ "$(plane_ips | wc -w)" = 2 ]
}
a_controller_leads() {
  local leader
  leader=$(system get lease tidegate -o jsonpath='{.spec.holderIdentity}') && [ -n "$leader" ] &&
    system get pod "$leader" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}' | grep -q True
}

begin() { # begin NAME [OPTIONS OF THE LOAD]
  fault=$1
  shift
  "$in" load run -address "$address" "$@" >"$work/load.json" &
  load=$!
  # Every client has had its turn before anything happens.
  sleep 2
  echo "== $fault"
}
# Ends the load, and holds the world against what it was before.
end() {
  wait_for 60 a_controller_leads
  wait_for 60 both_are_ready
  if ! k get httproute "probe-$fault" >/dev/null 2>&1; then probe "$fault"; fi
  wait_for 60 is_served "$fault" 200
  kill -TERM "$load"
  wait "$load" || fail "the load ended badly"
  load=
  jq -r '.kinds | to_entries[] | "   \(.key): \(.value.exchanges) exchanges, \(.value.connections) connections, \(.value.failures) failures, slowest \(.value.slowestMilliseconds) ms"' "$work/load.json"
  jq -e '[.kinds[] | .exchanges] | min > 0' "$work/load.json" >/dev/null || fail "$fault: some clients got nowhere"
  k delete httproute "probe-$fault" >/dev/null
  wait_for 60 is_served "$fault" 404
  if ! wait_for 30 as_before; then
    diff -u "$work/before" "$work/now" >&2 || true
    fail "$fault: statuses are not what they were"
  fi
}
no_failure() {
  jq -r '.failures[:20][] | "   \(.at) \(.kind) \(.phase) \(.carrier): \(.error)"' "$work/load.json" >&2
  jq -e '.failures == []' "$work/load.json" >/dev/null || fail "$fault: clients saw failures"
}

# kill_container NAMESPACE POD: ends the process of its container as the kernel would that has no memory left.
kill_container() {
  among_processes kill -KILL "$(container_process "$1" "$2")"
}

roll-out() {
  begin roll-out
  k rollout restart deployment/tidegate-edge >/dev/null
  # One that drains is told of changes like any other, and its clients notice neither.
  wait_for 120 one_is_terminating
  probe roll-out
  k rollout status deployment/tidegate-edge --timeout=3m >/dev/null
  # The last of the old ones drains, too.
  wait_for 90 none_is_terminating
  end
  no_failure
}
one_is_terminating() {
  k get pods --selector gateway.networking.k8s.io/gateway-name=edge -o json |
    jq -e 'any(.items[]; .metadata.deletionTimestamp != null)'
}
none_is_terminating() {
  k get pods --selector gateway.networking.k8s.io/gateway-name=edge -o json | jq -e '.items | length == 2'
}

leader() {
  begin leader -lasting
  local leader
  leader=$(system get lease tidegate -o jsonpath='{.spec.holderIdentity}')
  kill_container tidegate-system "$leader"
  # With its Pod, so that it does not come back as who it was: another one has to find the Lease unrenewed.
  system delete pod "$leader" --grace-period=0 --force >/dev/null 2>&1
  probe leader
  local begun=$SECONDS
  wait_for 60 is_served leader 200
  echo "   a route that was asked for at once was served after $((SECONDS - begun)) s"
  end
  no_failure
  [ "$(system get lease tidegate -o jsonpath='{.spec.holderIdentity}')" != "$leader" ] || fail "who was killed leads"
}

controllers() {
  begin controllers -lasting
  local pod
  for pod in $(system get pods -o name); do kill_container tidegate-system "${pod#pod/}"; done
  system scale deployment/tidegate --replicas=0 >/dev/null
  wait_for 60 no_controller
  probe controllers
  is_served controllers 404 || fail "somebody served a route without a controller"
  sleep 5
  system scale deployment/tidegate --replicas=2 >/dev/null
  system rollout status deployment/tidegate --timeout=2m >/dev/null
  end
  no_failure
}
no_controller() { [ -z "$(system get pods -o name)" ]; }

proxy() {
  begin proxy -lasting
  local pod ip at
  pod=$(k get pods --selector gateway.networking.k8s.io/gateway-name=edge -o jsonpath='{.items[0].metadata.name}')
  ip=$(k get pod "$pod" -o jsonpath='{.status.podIP}')
  at=$(date +%s.%N)
  kill_container faults "$pod"
  wait_for 60 is_restarted "$pod"
  end
  # Who was elsewhere must not have noticed.
  jq -e --arg ip "$ip" 'all(.failures[]; .carrier == "" or .carrier == $ip)' "$work/load.json" >/dev/null ||
    { jq --arg ip "$ip" '[.failures[] | select(.carrier != "" and .carrier != $ip)][:20]' "$work/load.json" >&2; fail "connections of the other data plane broke"; }
  jq -r --argjson at "$at" '
    def since: map(.at - $at) | if . == [] then "" else ", the last \(max * 1000 | round) ms after it was killed" end;
    ([.failures[] | select(.carrier != "")] | "   its own connections that broke: \(length)\(since)"),
    ([.failures[] | select(.carrier == "")] | "   new connections that failed: \(length)\(since)")' "$work/load.json"
  jq -e --argjson at "$at" 'all(.failures[]; .at - $at < 10)' "$work/load.json" >/dev/null || fail "it failed for too long"
}
is_restarted() {
  [ "$(k get pod "$1" -o jsonpath='{.status.containerStatuses[0].restartCount}')" -gt 0 ] && both_are_ready
}

# It does not answer, and does not say so either: worse than one that is gone.
away() { # away PROGRAM
  stopped=$(pgrep --parent "$(cluster_pid)" --full "^$1 ")
  kill -STOP "$stopped"
  sleep "$AWAY"
  kill -CONT "$stopped"
  stopped=
}
api-server() {
  begin api-server -lasting
  away kube-apiserver
  end
  no_failure
}
etcd() {
  begin etcd -lasting
  away etcd
  end
  no_failure
}

# It ends without a word, and comes back some seconds later with what it had on disk: cluster/node.sh starts it again.
killed() { # killed PROGRAM
  local process
  process=$(pgrep --parent "$(cluster_pid)" --full "^$1 ")
  kill -KILL "$process"
  wait_for 60 is_back "$1" "$process"
  wait_for 120 "$in" kubectl get --raw=/readyz
}
is_back() { # is_back PROGRAM PROCESS: as another process
  local now
  now=$(pgrep --parent "$(cluster_pid)" --full "^$1 ") && [ "$now" != "$2" ]
}
api-server-killed() {
  begin api-server-killed -lasting
  killed kube-apiserver
  end
  no_failure
}
etcd-killed() {
  begin etcd-killed -lasting
  killed etcd
  end
  no_failure
}

system scale deployment/tidegate --replicas=2 >/dev/null
system rollout status deployment/tidegate --timeout=2m >/dev/null
"$in" kubectl apply --server-side --filename "$here/faults.yaml" >/dev/null
k rollout status deployment/load --timeout=2m >/dev/null
k wait gateway/edge --for=condition=Programmed --timeout=2m >/dev/null
wait_for 60 both_are_ready
address=$(k get gateway edge -o jsonpath='{.status.addresses[0].value}')
probe first
wait_for 60 is_served first 200
k delete httproute probe-first >/dev/null
wait_for 60 is_served first 404
statuses >"$work/before"

if [ $# = 0 ]; then
  set -- roll-out leader controllers proxy api-server etcd api-server-killed etcd-killed
fi
for name in "$@"; do
  "$name"
done
