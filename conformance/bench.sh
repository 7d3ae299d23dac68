#!/usr/bin/env bash
# Measures Tidegate in a cluster of its own: from the creation of a route to its first answer, with few and with many
# others; what the controller costs meanwhile; and how long a new Gateway takes. SAMPLES routes at each level, 500 unless told.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/cluster/settings.sh"
image=$PROJECT/.cache/image/tidegate.tar
trap 'if [ -z "${KEEP:-}" ]; then "$CLUSTER/down.sh"; fi' EXIT
trap 'exit 130' INT TERM

"$CLUSTER/build.sh"
PROFILE=${PROFILE:-release} "$PROJECT/tools/image.sh" "$image"
"$here/install.sh" standard "$image"
backend=$(ctr --address "$STATE/containerd.sock" --namespace k8s.io images ls -q | awk '/\/echo-basic:/ && !found++')
"$CLUSTER/in.sh" bench -kubeconfig "$KUBECONFIG" -audit "$LOG/audit.log" -image "$backend" -samples "${SAMPLES:-500}"
