#!/usr/bin/env bash
# Runs a command in the cluster's network, with its programs and kubeconfig: in.sh kubectl get gateways -A
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/settings.sh"
if ! pid=$(cluster_pid); then
  echo "there is no cluster (conformance/cluster/up.sh starts one)" >&2
  exit 1
fi
# Not `ip netns exec`: it mounts /sys anew, without the cgroups.
exec nsenter --net="/proc/$pid/ns/net" env PATH="$BIN:$PATH:/usr/sbin:/sbin" "$@"
