#!/usr/bin/env bash
# In the cluster that is up, with Tidegate in it: the inputs of the golden tests are put into it, and what the
# controller writes into their statuses must be what `tidegate check` tells of the very same objects.
#
#   conformance/statuses.sh TIDEGATE CHANNEL
set -euo pipefail
tidegate=$(realpath "$1")
channel=$2
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/cluster/settings.sh"
cd "$PROJECT"

# Some 200 Gateways at once, on one node: without data planes, which have no part in this.
"$CLUSTER/in.sh" kubectl apply --server-side -f - >/dev/null <<EOF
apiVersion: gateway.tidegate.io/v1alpha1
kind: GatewayParameters
metadata: {name: no-data-planes, namespace: tidegate-system}
spec: {workload: {replicas: 0}, service: {type: ClusterIP}}
EOF
"$CLUSTER/in.sh" kubectl patch gatewayclass tidegate --type=merge >/dev/null --patch \
  '{"spec": {"parametersRef": {"group": "gateway.tidegate.io", "kind": "GatewayParameters", "namespace": "tidegate-system", "name": "no-data-planes"}}}'
# Fewer would mean that something was left out.
least=$([ "$channel" = standard ] && echo 417 || echo 430)
find crates/translate/tests/golden -name in.yaml | LC_ALL=C sort |
  "$CLUSTER/in.sh" statuses -kubeconfig "$KUBECONFIG" -tidegate "$tidegate" -least "$least" 2>&1
