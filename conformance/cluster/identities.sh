#!/usr/bin/env bash
# Keys, certificates and tokens for one life of the cluster, and a kubeconfig for each of its programs.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/settings.sh"
mkdir -p "$STATE/pki"
cd "$STATE/pki"
umask 077
key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

openssl req -x509 "${key[@]}" -days 30 -subj /CN=cluster -keyout ca.key -out ca.crt \
  -addext keyUsage=critical,keyCertSign,digitalSignature 2>/dev/null

certificate() { # certificate NAME SUBJECT EXTENSION...
  local name=$1 subject=$2
  shift 2
  openssl req "${key[@]}" -subj "$subject" -keyout "$name.key" -out "$name.csr" 2>/dev/null
  openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$name.crt" \
    -extfile <(printf '%s\n' "$@") 2>/dev/null
}
api=kubernetes.default
certificate apiserver /CN=kube-apiserver extendedKeyUsage=serverAuth \
  "subjectAltName=DNS:kubernetes,DNS:$api,DNS:$api.svc,DNS:$api.svc.cluster.local,DNS:localhost,IP:127.0.0.1,IP:$NODE_ADDRESS,IP:$API_SERVICE"
certificate kubelet "/CN=$NODE" extendedKeyUsage=serverAuth "subjectAltName=DNS:$NODE,IP:$NODE_ADDRESS"
certificate kubelet-client /O=system:masters/CN=apiserver-kubelet-client extendedKeyUsage=clientAuth
openssl genrsa -out accounts.key 2048 2>/dev/null
openssl rsa -in accounts.key -pubout -out accounts.pub 2>/dev/null

identity() { # identity USER KUBECONFIG [GROUP]
  local token
  token=$(openssl rand -hex 16)
  echo "$token,$1,$1${3:+,$3}" >>tokens.csv
  cat >"$2" <<EOF
apiVersion: v1
kind: Config
current-context: cluster
contexts: [{name: cluster, context: {cluster: cluster, user: user}}]
clusters: [{name: cluster, cluster: {server: "https://$NODE_ADDRESS:6443", certificate-authority: "$PWD/ca.crt"}}]
users: [{name: user, user: {token: "$token"}}]
EOF
}
identity admin "$KUBECONFIG" system:masters
identity "system:node:$NODE" "$STATE/kubelet.kubeconfig" system:nodes
for program in kube-controller-manager kube-scheduler kube-proxy; do
  identity "system:$program" "$STATE/$program.kubeconfig"
done
