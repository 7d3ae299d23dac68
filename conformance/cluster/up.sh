#!/usr/bin/env bash
# Starts a cluster of one node, in namespaces of its own: its addresses exist nowhere else, nothing gets out of it,
# and nothing of it stays behind. Wants what build.sh made, and root. down.sh stops it, in.sh runs commands in it.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/settings.sh"
if [ "$(id -u)" != 0 ]; then
  echo "a cluster needs root: it makes network namespaces and containers" >&2
  exit 1
fi
if cluster_pid >/dev/null; then
  echo "the cluster is up already (conformance/cluster/down.sh stops it)" >&2
  exit 1
fi
"$CLUSTER/down.sh"
mkdir -p "$LOG" "$STATE"/{cni,containerd}

"$CLUSTER/identities.sh"

cat >"$STATE/cni/10-pods.conflist" <<EOF
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{
  "type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$STATE/cni/ipam", "ranges": [[{"subnet": "$PODS"}]], "routes": [{"dst": "0.0.0.0/0"}]}
}]}
EOF
# Where a negative oom_score_adj is not allowed, runc would die of it.
cat >"$STATE/containerd.toml" <<EOF
version = 2
root = "$STATE/containerd/root"
state = "$STATE/containerd/state"
[grpc]
  address = "$STATE/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "local/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$STATE/cni"
EOF
# Nothing is evicted or collected because a disk is rather full.
cat >"$STATE/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$STATE/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP
failCgroupV1: false
failSwapOn: false
maxPods: 250
serializeImagePulls: false
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $STATE/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $STATE/pki/kubelet.crt
tlsPrivateKeyFile: $STATE/pki/kubelet.key
clusterDomain: cluster.local
resolvConf: /etc/resolv.conf
volumePluginDir: $STATE/volume-plugins
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
kubeAPIQPS: 200
kubeAPIBurst: 400
EOF
# Who changed what about Gateways and routes, and all that Tidegate asks for.
cat >"$STATE/audit.yaml" <<EOF
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
  - {level: Request, verbs: [create, update, patch, delete], resources: [{group: gateway.networking.k8s.io}, {group: gateway.networking.x-k8s.io}]}
  - {level: Metadata, userGroups: ["system:serviceaccounts:tidegate-system"]}
  - {level: None}
EOF
cat >"$STATE/kube-proxy.yaml" <<EOF
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: $PODS
hostnameOverride: $NODE
clientConnection: {kubeconfig: $STATE/kube-proxy.kubeconfig}
nftables: {syncPeriod: 30s, minSyncPeriod: 100ms}
conntrack: {maxPerCore: 0}
EOF

# The kubelet sets these for the whole machine; down.sh puts them back.
sysctl vm.overcommit_memory kernel.panic kernel.panic_on_oops | tr -d ' ' >"$STATE/sysctls"
modprobe -q br_netfilter 2>/dev/null || true
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*/; do
  if [ -e "$hierarchy/cgroup.procs" ]; then
    mkdir -p "$hierarchy/$CGROUP"
    # Of the second version of cgroups, controllers are handed down; of the first, processors are.
    if [ -e "$hierarchy/cgroup.controllers" ] && [ -w "$hierarchy/cgroup.subtree_control" ]; then
      sed 's/[^ ]*/+&/g' "$hierarchy/cgroup.controllers" | tee "$hierarchy/cgroup.subtree_control" "$hierarchy/$CGROUP/cgroup.subtree_control" >/dev/null || true
    fi
  fi
done

setsid unshare --net --mount --pid --fork --mount-proc --kill-child "$CLUSTER/node.sh" >"$LOG/node.log" 2>&1 </dev/null &
outside=$!
# A cluster that does not come up is not left half started.
trap 'kill -KILL $outside' EXIT
wait_for 10 grep -q . "/proc/$outside/task/$outside/children"
cut -d' ' -f1 "/proc/$outside/task/$outside/children" >"$STATE/pid"
wait_for 10 grep -qaF "$CLUSTER/node.sh" "/proc/$(cat "$STATE/pid")/cmdline"

ready() { "$CLUSTER/in.sh" kubectl wait --for=condition=Ready "node/$NODE" --timeout=1s && "$CLUSTER/in.sh" kubectl get serviceaccount default; }
if ! wait_for 300 ready; then
  for log in "$LOG"/*.log; do
    echo "== $log" >&2
    tail -n 5 "$log" >&2
  done
  exit 1
fi
trap - EXIT
