# What the scripts of this folder have in common; sourced, never run.
# shellcheck shell=bash disable=SC2034
PROJECT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CLUSTER=$PROJECT/conformance/cluster
CACHE=$PROJECT/.cache/cluster     # what build.sh makes
BIN=$CACHE/bin
STATE=$CACHE/run                  # what lives as long as the cluster
LOG=$STATE/log
KUBECONFIG=$CACHE/kubeconfig

NODE=node1
NODE_ADDRESS=172.30.0.1
PODS=10.244.0.0/16
SERVICES=10.96.0.0/16
API_SERVICE=10.96.0.1
POOL=172.30.255.0/24              # for Services of type LoadBalancer
USABLE=172.30.255.200             # an address of the pool that nobody gets by chance
UNUSABLE=10.1.2.3
# Two clusters on one machine, of two checkouts, must not clear each other's cgroups away.
CGROUP=tidegate-$(printf '%s' "$PROJECT" | cksum | cut -d' ' -f1)

# The suite's module asks for this Go; any since 1.21 fetches it. With other flags everything would be built again.
export GOTOOLCHAIN=go1.27.0 CGO_ENABLED=0 GOFLAGS="-buildvcs=false -mod=readonly -trimpath" KUBECONFIG

# The first process of the cluster's namespaces, if it is there and ours.
cluster_pid() {
  local pid
  pid=$(cat "$STATE/pid" 2>/dev/null) || return 1
  grep -qsaF "$CLUSTER/node.sh" "/proc/$pid/cmdline" && echo "$pid"
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
  local last=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    if [ "$SECONDS" -gt "$last" ]; then
      echo "waited in vain for: $*" >&2
      return 1
    fi
    sleep 0.1
  done
}

# container_process NAMESPACE POD: the process of its first container, by its number inside the cluster.
container_process() {
  local id
  id=$("$CLUSTER/in.sh" kubectl --namespace "$1" get pod "$2" -o jsonpath='{.status.containerStatuses[0].containerID}')
  ctr --address "$STATE/containerd.sock" --namespace k8s.io tasks ls | awk -v id="${id#containerd://}" '$1 == id { print $2 }'
}

# among_processes COMMAND...: where those numbers mean something.
among_processes() {
  nsenter --target "$(cluster_pid)" --pid --mount "$@"
}
