#!/usr/bin/env bash
# In the cluster that is up, with Tidegate in it (install.sh): certificates for the names on routes by cert-manager, whose
# real controllers run here, with issuers of the types CA, SelfSigned and ACME; curl is the client that verifies.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/cluster/settings.sh"
in=$CLUSTER/in.sh
tools=$PROJECT/.cache/tools/certmanager
tidegate=$PROJECT/target/$([ "${PROFILE:-dev}" = dev ] && echo debug || echo "$PROFILE")/tidegate
work=$(mktemp -d)
processes=()
leave() {
  for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
  if [ -d "$LOG" ]; then cp "$work"/*.log "$LOG/" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM
fail() {
  echo "certmanager: $*" >&2
  exit 1
}
kubectl() { "$in" kubectl "$@"; }
begun=$SECONDS
done_with() { printf 'certmanager: %3ds  %s\n' $((SECONDS - begun)) "$1"; }

mkdir -p "$tools"
(cd "$here/certmanager" && go build -ldflags "-s -w" -o "$tools/" ./controllers ./solver)
(cd "$PROJECT/tools/certs" && GOTOOLCHAIN=local go build -o "$tools/" github.com/letsencrypt/pebble/v2/cmd/pebble github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv)
"$BIN/image" -binary "$tools/solver" -name local/acmesolver:1 >"$tools/acmesolver.tar"
ctr --address "$STATE/containerd.sock" --namespace k8s.io images import "$tools/acmesolver.tar" >/dev/null
crds=$(cd "$here/certmanager" && go list -m -f '{{.Dir}}' github.com/cert-manager/cert-manager)/deploy/crds
begun=$SECONDS

# says NAMESPACE KIND/NAME LISTENER WORDS: the listener's condition has all of it within a while.
condition() {
  kubectl --namespace "$1" get "$2" -o jsonpath="{range .status.listeners[?(@.name=='$3')].conditions[?(@.type=='gateway.tidegate.io/CertificatesIssued')]}{.status} {.reason} {.message}{end}"
}
has_condition() { condition "$1" "$2" "$3" | grep -qF -- "$4"; }
says() {
  wait_for 60 has_condition "$@" || fail "listener $3 of $1/$2 says: $(condition "$1" "$2" "$3")"
}
address_of() { kubectl --namespace "$1" get gateway "$2" -o jsonpath='{.status.addresses[0].value}'; }
# answers ADDRESS PORT NAME CA: an answer over TLS that verifies.
answers() {
  "$in" curl --silent --show-error --fail --max-time 5 --cacert "$4" --resolve "$3:$2:$1" --output /dev/null "https://$3:$2/"
}
served() { wait_for 60 answers "$@" || fail "no verified answer for $3: $(answers "$@" 2>&1)"; }
field() { # field NAMESPACE CERTIFICATE PATH
  kubectl --namespace "$1" get certificate "$2" -o jsonpath="{$3}"
}
is() { [ "$(field "$1" "$2" "$3")" = "$4" ]; }
has() { wait_for 60 is "$@" || fail "Certificate $1/$2 has $3 $(field "$1" "$2" "$3"), not $4"; }
route() { # route NAMESPACE NAME HOSTNAMES [PARENT]
  local parent=${4:-}
  cat <<MANIFEST
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: $2, namespace: $1}
spec:
  parentRefs: [{${parent:-name: front, sectionName: https}}]
  hostnames: [$3]
  rules: [{backendRefs: [{name: notes, port: 80}]}]
MANIFEST
}
apply() { kubectl apply --server-side --filename "${1:--}" >/dev/null; }

# Switched off it may do nothing.
account=system:serviceaccount:tidegate-system:tidegate
if kubectl auth can-i create certificates.cert-manager.io --as="$account" >/dev/null 2>&1; then
  fail "the controller may write Certificates though nobody switched it on"
fi
controller() { # controller OPTIONS...: as helm takes them
  "$in" helm upgrade tidegate "$PROJECT/charts/tidegate" --namespace tidegate-system --reuse-values "$@" --wait --timeout 2m >/dev/null
}
controller --set certificates.certManager=true
apply <<MANIFEST
apiVersion: v1
kind: Namespace
metadata: {name: cert-manager}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: notes, namespace: default}
spec:
  selector: {matchLabels: {app: notes}}
  template:
    metadata: {labels: {app: notes}}
    spec:
      containers: [{name: load, image: "local/load:1", imagePullPolicy: Never, args: [serve], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}]
MANIFEST
example=$PROJECT/examples/cert-manager
apply "$example/gateway.yaml"
apply "$example/notes.yaml"
apply "$example/shop.yaml"
says default gateway/front https "cert-manager is not installed"
done_with "without cert-manager the listener says so"

apply "$crds"
kubectl wait crd certificates.cert-manager.io --for=condition=Established --timeout=60s >/dev/null
has default front .spec.dnsNames '["notes.example.com"]'
kubectl auth can-i create certificates.cert-manager.io --as="$account" >/dev/null || fail "the controller may not write Certificates"
done_with "its CRDs are noticed"

front=$(address_of default front)
"$in" "$tools/pebble-challtestsrv" -dnsserver 127.0.0.1:8053 -management 127.0.0.1:8055 -http01 "" -https01 "" -tlsalpn01 "" -doh "" \
  -defaultIPv6 "" -defaultIPv4 192.0.2.1 >"$work/dns.log" 2>&1 &
processes+=($!)
"$in" "$tools/controllers" -kubeconfig "$KUBECONFIG" -solver local/acmesolver:1 -nameservers 127.0.0.1:8053 >"$work/cert-manager.log" 2>&1 &
processes+=($!)
apply "$example/issuer.yaml"
kubectl wait clusterissuer/ca --for=condition=Ready --timeout=60s >/dev/null
ca=$work/ca.crt
kubectl --namespace cert-manager get secret root -o jsonpath='{.data.tls\.crt}' | base64 -d >"$ca"
served "$front" 443 notes.example.com "$ca"
says default gateway/front https "True CertificatesIssued all names have a certificate (1)"
[ "$(field default front '.metadata.ownerReferences[0].kind')" = Gateway ] || fail "the Certificate does not belong to its Gateway"
done_with "a route of the example is served, signed by a CA"

# cert-manager's gateway-shim beside it, on the same Gateway.
served "$front" 443 shop.example.com "$ca"
[ "$(field default shop '.metadata.ownerReferences[0].controller')" = true ] || fail "Certificate shop is not the gateway-shim's"
[ -z "$(field default shop '.metadata.labels.gateway\.tidegate\.io/role')" ] || fail "Certificate shop is Tidegate's"
done_with "the gateway-shim makes that of the listener with a hostname"

# Ten routes, one change; a name by hand is taken back.
generation=$(field default front .metadata.generation)
for number in 0 1 2 3 4 5 6 7 8 9; do route default "more$number" "more$number.example.com"; done | apply
served "$front" 443 more9.example.com "$ca"
has default front .metadata.generation $((generation + 1))
done_with "ten routes are one change of the Certificate"
names=$(field default front .spec.dnsNames)
kubectl --namespace default patch certificate front --type json --patch '[{"op": "add", "path": "/spec/dnsNames/-", "value": "bank.example.com"}]' >/dev/null
has default front .spec.dnsNames "$names"
done_with "a change by hand is put back"

# A route that goes changes nothing, and another that comes takes it out.
served "$front" 443 notes.example.com "$ca"
version=$(field default front .metadata.generation)
kubectl --namespace default delete httproute more9 >/dev/null
sleep 6 # longer than names are gathered
has default front .metadata.generation "$version"
route default late late.example.com | apply
served "$front" 443 late.example.com "$ca"
if field default front .spec.dnsNames | grep -qF more9; then fail "more9.example.com is still asked for"; fi
done_with "a name that goes stays until another comes"

# Names of another namespace do not share a Certificate.
apply <<MANIFEST
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shared, namespace: default, annotations: {cert-manager.io/cluster-issuer: ca}}
spec:
  gatewayClassName: tidegate
  allowedListeners: {namespaces: {from: All}}
  listeners:
    - {name: mine, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: mine}]}}
    - {name: theirs, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: theirs}]}}
    - {name: open, port: 9443, protocol: HTTPS, allowedRoutes: {namespaces: {from: All}}, tls: {certificateRefs: [{name: open}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: team, namespace: team}
spec:
  parentRef: {name: shared, namespace: default}
  listeners:
    - {name: team, port: 7443, protocol: HTTPS, tls: {certificateRefs: [{name: team}]}}
---
apiVersion: v1
kind: Service
metadata: {name: notes, namespace: team}
spec: {ports: [{port: 80}]}
MANIFEST
pod=$(kubectl --namespace default get pods --selector app=notes -o jsonpath='{.items[0].status.podIP}')
apply <<MANIFEST
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: notes, namespace: team, labels: {kubernetes.io/service-name: notes}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: ["$pod"]}]
MANIFEST
route default shared "shared.example.com" "name: shared, sectionName: open" | apply
has default open .spec.dnsNames '["shared.example.com"]'
route team shared "team.example.com" "name: shared, namespace: default, sectionName: open" | apply
has default open-2 .spec.dnsNames '["team.example.com"]'
has default open .spec.dnsNames '["shared.example.com"]'
wait_for 60 kubectl --namespace default get secret open-2 || fail "there is no Secret open-2"
[ "$(kubectl --namespace default get secret open-2 -o jsonpath='{.metadata.annotations.gateway\.tidegate\.io/certificate-of}')" = open ] ||
  fail "Secret open-2 does not say beside which it stands"
served "$(address_of default shared)" 9443 shared.example.com "$ca"
served "$(address_of default shared)" 9443 team.example.com "$ca"
done_with "names of two namespaces have two Certificates"

# What is not ours is not touched.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=mine \
  -addext subjectAltName=DNS:mine.example.com -keyout "$work/mine.key" -out "$work/mine.crt" 2>/dev/null
kubectl --namespace default create secret tls mine --cert "$work/mine.crt" --key "$work/mine.key" >/dev/null
secret=$(kubectl --namespace default get secret mine -o jsonpath='{.metadata.resourceVersion}')
apply <<MANIFEST
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: theirs, namespace: default}
spec: {secretName: theirs, dnsNames: [theirs.example.com], issuerRef: {kind: ClusterIssuer, name: ca}}
MANIFEST
kubectl --namespace default wait certificate/theirs --for=condition=Ready --timeout=60s >/dev/null
route default mine "mine.example.com" "name: shared, sectionName: mine" | apply
route default theirs "theirs.example.com, further.example.com" "name: shared, sectionName: theirs" | apply
says default gateway/shared mine "Secret default/mine exists and was not made for a Certificate of Tidegate's"
says default gateway/shared theirs "was not made for a Certificate of Tidegate's"
served "$(address_of default shared)" 443 mine.example.com "$work/mine.crt"
served "$(address_of default shared)" 8443 theirs.example.com "$ca"
if kubectl --namespace default get certificate mine >/dev/null 2>&1; then fail "a Certificate was made for somebody's Secret"; fi
[ "$(kubectl --namespace default get secret mine -o jsonpath='{.metadata.resourceVersion}')" = "$secret" ] || fail "somebody's Secret was written"
is default theirs .spec.dnsNames '["theirs.example.com"]' || fail "somebody's Certificate was written"
is default theirs .metadata.generation 1 || fail "somebody's Certificate was written"
done_with "Secrets and Certificates of others are used and left alone"

# A ListenerSet's Certificates go with it, a Gateway's with that.
route team own "own.example.com" "kind: ListenerSet, name: team" | apply
served "$(address_of default shared)" 7443 own.example.com "$ca"
[ "$(field team team '.metadata.ownerReferences[0].kind')" = ListenerSet ] || fail "the Certificate does not belong to its ListenerSet"
kubectl --namespace team delete listenerset team >/dev/null
gone() { ! kubectl --namespace "$1" get certificate "$2"; }
wait_for 60 gone team team || fail "the ListenerSet's Certificate has outlived it"
kubectl --namespace default delete gateway shared >/dev/null
wait_for 60 gone default open-2 || fail "the Gateway's Certificate has outlived it"
kubectl --namespace default get certificate theirs >/dev/null || fail "somebody's Certificate is gone"
done_with "a ListenerSet's Certificate belongs to it; what is ours goes with its owner"

# SelfSigned, of the namespace.
apply <<MANIFEST
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: self, namespace: default}
spec: {selfSigned: {}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: self, namespace: default, annotations: {cert-manager.io/issuer: self, cert-manager.io/common-name: self.example.com, cert-manager.io/duration: soon}}
spec:
  gatewayClassName: tidegate
  listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: self}]}}]
MANIFEST
route default self "self.example.com" "name: self" | apply
kubectl --namespace default wait certificate/self --for=create --timeout=60s >/dev/null
kubectl --namespace default wait certificate/self --for=condition=Ready --timeout=60s >/dev/null
kubectl --namespace default get secret self -o jsonpath='{.data.tls\.crt}' | base64 -d >"$work/self.crt"
served "$(address_of default self)" 443 self.example.com "$work/self.crt"
noted() { kubectl --namespace default get events --field-selector involvedObject.name=self,reason=CertificateNotAsked -o jsonpath='{.items[*].message}' | grep -qF 'cert-manager.io/duration'; }
wait_for 30 noted || fail "there is no Event about the wrong annotation"
done_with "a certificate that vouches for itself; a wrong annotation is an Event"

# ACME: Pebble proves names by HTTP-01, which cert-manager answers behind the Gateway itself.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=pebble -addext "subjectAltName=IP:127.0.0.1" \
  -keyout "$work/pebble.key" -out "$work/pebble.crt" 2>/dev/null
cat >"$work/pebble.json" <<CONFIG
{"pebble": {"listenAddress": "127.0.0.1:14000", "managementListenAddress": "127.0.0.1:15000", "certificate": "$work/pebble.crt",
  "privateKey": "$work/pebble.key", "httpPort": 80, "tlsPort": 443, "ocspResponderURL": "", "externalAccountBindingRequired": false}}
CONFIG
PEBBLE_VA_NOSLEEP=1 "$in" "$tools/pebble" -config "$work/pebble.json" -strict -dnsserver 127.0.0.1:8053 >"$work/pebble.log" 2>&1 &
processes+=($!)
root() { "$in" curl --silent --fail --cacert "$work/pebble.crt" --output "$work/roots.crt" https://127.0.0.1:15000/roots/0; }
wait_for 20 root
apply <<MANIFEST
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: acme}
spec:
  acme:
    server: https://127.0.0.1:14000/dir
    caBundle: $(base64 -w0 "$work/pebble.crt")
    privateKeySecretRef: {name: acme-account}
    solvers: [{http01: {gatewayHTTPRoute: {}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: acme, namespace: default, annotations: {cert-manager.io/cluster-issuer: acme}}
spec:
  gatewayClassName: tidegate
  listeners:
    - {name: http, port: 80, protocol: HTTP}
    - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: acme}]}}
MANIFEST
kubectl --namespace default wait gateway/acme --for=condition=Accepted --timeout=60s >/dev/null
has_address() { [ -n "$(address_of default acme)" ]; }
wait_for 60 has_address
acme=$(address_of default acme)
"$in" curl --silent --fail --data "{\"ip\": \"$acme\"}" http://127.0.0.1:8055/set-default-ipv4
route default acme "one.example.net, two.example.net" "name: acme" | apply
served "$acme" 443 one.example.net "$work/roots.crt"
served "$acme" 443 two.example.net "$work/roots.crt"
says default gateway/acme https "True CertificatesIssued all names have a certificate (2)"
has default acme .spec.dnsNames '["one.example.net","two.example.net"]'
done_with "names proved to an ACME server through the Gateway"

# The operator says which names share a Certificate, and the owner of a Gateway before that.
controller --set 'controller.extraArgs={--certificate-per=listener}'
for gateway in together apart; do
  per=
  if [ "$gateway" = apart ]; then per=', gateway.tidegate.io/certificate-per: namespace'; fi
  apply <<MANIFEST
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: $gateway, namespace: default, annotations: {cert-manager.io/cluster-issuer: ca$per}}
spec:
  gatewayClassName: tidegate
  listeners: [{name: https, port: 443, protocol: HTTPS, allowedRoutes: {namespaces: {from: All}}, tls: {certificateRefs: [{name: $gateway}]}}]
MANIFEST
  {
    route default "$gateway" "one.$gateway.example.com" "name: $gateway"
    route team "$gateway" "two.$gateway.example.com" "name: $gateway, namespace: default"
  } | apply
done
has default together .spec.dnsNames '["one.together.example.com","two.together.example.com"]'
has default apart .spec.dnsNames '["one.apart.example.com"]'
has default apart-2 .spec.dnsNames '["two.apart.example.com"]'
for gateway in together apart; do
  for name in one two; do served "$(address_of default "$gateway")" 443 "$name.$gateway.example.com" "$ca"; done
done
# The dry run knows how the controller was started.
plans() { # plans GATEWAY WORDS
  "$in" "$tidegate" certs plan --gateway "$1" --namespace default >"$work/plan" 2>&1 || fail "certs plan: $(cat "$work/plan")"
  grep -qF "together: $2" "$work/plan" || fail "certs plan of $1 says: $(cat "$work/plan")"
}
plans together "all names of a Secret, 100 at most"
plans apart "names of one namespace, 100 at most"
done_with "which names share a Certificate is as operator and owner have it"

kubectl --namespace default delete gateway front self acme together apart >/dev/null
for name in front self acme together apart apart-2; do wait_for 60 gone default "$name" || fail "Certificate $name has outlived its Gateway"; done
# As it was, so that it can be run again.
kubectl delete namespace team --wait=false >/dev/null
kubectl --namespace default delete httproutes --all >/dev/null
kubectl --namespace default delete secrets --field-selector type=kubernetes.io/tls >/dev/null
kubectl delete --filename "$crds" >/dev/null
controller --set certificates.certManager=false --set-json 'controller.extraArgs=[]'
echo "certmanager: all as it should be"
