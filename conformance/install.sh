#!/usr/bin/env bash
# A new cluster with the CRDs of a channel, and Tidegate by its chart: `conformance/install.sh CHANNEL IMAGE.tar`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/cluster/settings.sh"
in=$CLUSTER/in.sh
"$CLUSTER/down.sh"
"$CLUSTER/up.sh"
ctr --address "$STATE/containerd.sock" --namespace k8s.io images import "$2" >/dev/null
"$in" kubectl apply --server-side -f "$CACHE/crds/$1" >/dev/null
"$in" kubectl wait crd --all --for=condition=Established --timeout=60s >/dev/null
"$in" helm install tidegate "$PROJECT/charts/tidegate" --namespace tidegate-system --create-namespace \
  --set image.pullPolicy=Never --wait --timeout 2m >/dev/null
"$in" kubectl wait gatewayclass/tidegate --for=condition=Accepted --timeout=60s >/dev/null
