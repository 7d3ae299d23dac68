#!/usr/bin/env bash
# The first process in the cluster's namespaces of network, mounts and processes, where up.sh starts it. It is the
# whole cluster: etcd, the API server and its controllers, containerd, kubelet and kube-proxy are its children, and
# when it ends the kernel ends all of them, with every container, mount, bridge and firewall rule.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/settings.sh"
PKI=$STATE/pki
PATH=$BIN:$PATH:/usr/sbin:/sbin

start() { # start NAME COMMAND...
  local name=$1
  shift
  "$@" >>"$LOG/$name.log" 2>&1 </dev/null &
}
# As start; what ends is started again, a while later, as a machine would that it was the only one of.
declare -A kept
keep() { # keep NAME COMMAND...
  start "$@"
  kept[$!]=$(printf '%q ' "$@")
}

# Folders that programs insist on, each behind one of ours.
mount --make-rshared /
hide() { # hide FOLDER NAME
  mkdir -p "$1" "$STATE/$2"
  mount --bind "$STATE/$2" "$1"
}
hide /run/netns netns
hide /run/containerd shims
hide /var/lib/cni cni-results
hide /var/lib/kubelet kubelet
hide /var/log/pods log/pods
hide /var/log/containers log/containers

# A bridge without ports has the node's address: not every kernel has a device of type dummy.
ip link set lo up
ip link add node0 type bridge
ip address add "$NODE_ADDRESS/32" dev node0
ip link set node0 up
# A packet to a Service needs some route before kube-proxy's rules give it another destination.
ip route add "$POOL" dev node0 src "$NODE_ADDRESS"
ip route add "$SERVICES" dev node0 src "$NODE_ADDRESS"
sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1

keep etcd etcd --data-dir "$STATE/etcd" --unsafe-no-fsync --log-level warn \
  --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
  --initial-cluster default=http://127.0.0.1:2380
wait_for 60 curl -sf http://127.0.0.1:2379/health
keep kube-apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 \
  --secure-port=6443 --bind-address=0.0.0.0 --advertise-address="$NODE_ADDRESS" \
  --service-cluster-ip-range="$SERVICES" --allow-privileged=true --authorization-mode=Node,RBAC \
  --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key" \
  --client-ca-file="$PKI/ca.crt" --token-auth-file="$PKI/tokens.csv" \
  --kubelet-certificate-authority="$PKI/ca.crt" --kubelet-preferred-address-types=InternalIP \
  --kubelet-client-certificate="$PKI/kubelet-client.crt" --kubelet-client-key="$PKI/kubelet-client.key" \
  --service-account-issuer=https://kubernetes.default.svc.cluster.local \
  --service-account-key-file="$PKI/accounts.pub" --service-account-signing-key-file="$PKI/accounts.key" \
  --audit-policy-file="$STATE/audit.yaml" --audit-log-path="$LOG/audit.log" \
  --runtime-config=certificates.k8s.io/v1beta1=true --feature-gates=ClusterTrustBundle=true

start containerd containerd --config "$STATE/containerd.toml"
ctr=(ctr --address "$STATE/containerd.sock" --namespace k8s.io)
wait_for 30 "${ctr[@]}" version
for image in "$CACHE"/images/*.tar; do
  "${ctr[@]}" images import "$image" >>"$LOG/images.log" 2>&1
done

wait_for 120 kubectl get --raw=/readyz
start kube-controller-manager kube-controller-manager --kubeconfig="$STATE/kube-controller-manager.kubeconfig" \
  --service-account-private-key-file="$PKI/accounts.key" --root-ca-file="$PKI/ca.crt" \
  --use-service-account-credentials=true --leader-elect=false --cluster-cidr="$PODS" --allocate-node-cidrs=false \
  --flex-volume-plugin-dir="$STATE/volume-plugins"
start kube-scheduler kube-scheduler --kubeconfig="$STATE/kube-scheduler.kubeconfig" --leader-elect=false
start kubelet kubelet --config="$STATE/kubelet.yaml" --kubeconfig="$STATE/kubelet.kubeconfig" \
  --hostname-override="$NODE" --node-ip="$NODE_ADDRESS"
start kube-proxy kube-proxy --config="$STATE/kube-proxy.yaml"
start addresses addresses --kubeconfig "$KUBECONFIG" --pool "$POOL"

# Exits of processes whose parents are gone are taken here.
while true; do
  ended=
  wait -n -p ended || true
  if [ -n "${ended:-}" ] && [ -n "${kept[$ended]:-}" ]; then
    again=${kept[$ended]}
    unset "kept[$ended]"
    sleep 5
    eval "keep $again"
  fi
  sleep 0.2
done
