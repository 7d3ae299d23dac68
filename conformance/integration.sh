#!/usr/bin/env bash
# What needs a whole cluster and is not the official suite: who may do what, commands that ask a cluster, data planes in
# all their shapes, faults under load, and certificates: that the controller makes, and by cert-manager. Each is a script of
# its own, which can be run again in a cluster that is up.
#
#   ONLY="rights faults"   some of them
#   KEEP=1                 leave the cluster up, to look around with conformance/cluster/in.sh
#   PROFILE=dev|release    what Tidegate is built with; dev by default
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/cluster/settings.sh"
export PROFILE=${PROFILE:-dev}
image=$PROJECT/.cache/image/tidegate.tar
logs=$PROJECT/.cache/conformance/integration

leave() {
  local outcome=$?
  if [ "$outcome" != 0 ] && cluster_pid >/dev/null; then
    rm -rf "$logs"
    mkdir -p "$logs"
    cp -r "$LOG/." "$logs/" 2>/dev/null || true
    "$CLUSTER/in.sh" kubectl get gatewayclasses,gateways,httproutes,tcproutes,tlsroutes,services,deployments,daemonsets,pods,events -A -o yaml >"$logs/objects.yaml" 2>&1 || true
    echo "failed; logs are in ${logs#"$PROJECT"/}" >&2
  fi
  if [ -z "${KEEP:-}" ]; then "$CLUSTER/down.sh"; fi
}
trap leave EXIT
trap 'exit 130' INT TERM

"$CLUSTER/build.sh"
"$PROJECT/tools/image.sh" "$image"
"$here/install.sh" experimental "$image"
for part in ${ONLY:-rights commands planes faults certs certmanager}; do
  "$here/$part.sh"
done
