#!/usr/bin/env bash
# In the cluster that is up, with Tidegate in it (install.sh): commands that ask a cluster, as people would.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/cluster/settings.sh"
in=$CLUSTER/in.sh
tidegate=$PROJECT/target/$([ "${PROFILE:-dev}" = dev ] && echo debug || echo "$PROFILE")/tidegate
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
said=$work/said

# says STATUS WORDS... -- COMMAND...: it ends with this status, and has said all of these words.
says() {
  local status=$1 words=() outcome=0 word
  shift
  while [ "$1" != -- ]; do
    words+=("$1")
    shift
  done
  shift
  "$in" "$@" >"$said" 2>&1 || outcome=$?
  for word in "${words[@]}"; do
    if [ "$outcome" != "$status" ] || ! grep -qF -- "$word" "$said"; then
      printf 'commands: %s ended with %s and not %s, or did not say "%s":\n' "$*" "$outcome" "$status" "$word" >&2
      cat "$said" >&2
      exit 1
    fi
  done
}

# A new namespace: the API server cannot be asked about what is in it.
sed 's/\(name\|namespace\): faults/\1: elsewhere/' "$here/faults.yaml" >"$work/elsewhere.yaml"
says 0 "new      Namespace elsewhere" "there is no namespace elsewhere yet" -- "$tidegate" check --server "$work/elsewhere.yaml"
"$in" kubectl apply --server-side --filename "$here/faults.yaml" >/dev/null
"$in" kubectl --namespace faults wait gateway/edge --for=condition=Programmed --timeout=2m >/dev/null
"$in" kubectl --namespace faults rollout status deployment/load --timeout=2m >/dev/null
says 0 "7 of 7 are there as they are written" "1 of other kinds" -- "$tidegate" check --server "$here/faults.yaml"

sed 's/port: 5000/port: 5001/' "$here/faults.yaml" >"$work/changed.yaml"
says 0 "changed  Gateway faults/edge" "spec.listeners[1].port: 5000 -> 5001" "6 of 7 are there" -- \
  "$tidegate" check --server "$work/changed.yaml"
says 0 '"verdict": "changed"' '"field": "spec.listeners[1].port"' -- "$tidegate" check --server -o json "$work/changed.yaml"
# One route alone, whose Gateway and Service the cluster has; and one whose Gateway nobody has.
cat >"$work/route.yaml" <<MANIFEST
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: alone, namespace: faults}
spec:
  parentRefs: [{name: edge}]
  hostnames: [alone.example.com]
  rules: [{backendRefs: [{name: load, port: 8080}]}]
MANIFEST
says 0 "new      HTTPRoute faults/alone" -- "$tidegate" check --server "$work/route.yaml"
sed 's/name: edge/name: none/' "$work/route.yaml" >"$work/stray.yaml"
says 1 "not accepted: HTTPRoute faults/alone" -- "$tidegate" check --server "$work/stray.yaml"
# What the API server refuses and Tidegate cannot know of: somebody's policy, here an immutable field.
cat >"$work/refused.yaml" <<MANIFEST
apiVersion: v1
kind: Service
metadata: {name: load, namespace: faults}
spec:
  clusterIP: 10.96.77.77
  selector: {app: load}
  ports: [{name: http, port: 8080}]
MANIFEST
says 1 "refused  Service faults/load: " "may not change once set" -- "$tidegate" check --server "$work/refused.yaml"
# Whoever has no rights learns that, and nothing else.
"$in" kubectl --namespace faults create serviceaccount nobody --dry-run=client -o yaml | "$in" kubectl apply --server-side --filename - >/dev/null
sed "s/token: .*/token: \"$("$in" kubectl --namespace faults create token nobody)\"}}]/" "$KUBECONFIG" >"$work/kubeconfig"
says 0 "unknown  Gateway faults/edge" "forbidden" -- env KUBECONFIG="$work/kubeconfig" "$tidegate" check --server "$here/faults.yaml"

live=(--gateway edge --namespace faults)
says 0 "As data plane tidegate-edge-" "TLSRoute faults/load" "Service faults/load" -- \
  "$tidegate" explain "${live[@]}" --port 443 --sni load.example.com
for ip in $("$in" kubectl --namespace faults get pods --selector app=load -o jsonpath='{.items[*].status.podIP}'); do
  says 0 "$ip" -- "$tidegate" explain "${live[@]}" --port 443 --sni load.example.com -o json
done
says 1 "nobody.example.com" -- "$tidegate" explain "${live[@]}" --port 443 --sni nobody.example.com
says 2 "Gateway faults/none has no data plane" -- "$tidegate" explain --gateway none --namespace faults --port 443
says 2 "cannot be listed" "forbidden" -- env KUBECONFIG="$work/kubeconfig" "$tidegate" refused "${live[@]}"

address=$("$in" kubectl --namespace faults get gateway edge -o jsonpath='{.status.addresses[0].value}')
"$in" openssl s_client -connect "$address:443" -servername nobody.example.com </dev/null >/dev/null 2>&1 || true
says 0 "nobody.example.com" "tidegate-edge-" -- "$tidegate" refused "${live[@]}"
says 0 '"pod": "tidegate-edge-' '"sni": "nobody.example.com"' -- "$tidegate" refused "${live[@]}" -o json
echo "commands: all say what they should"
