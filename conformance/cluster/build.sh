#!/usr/bin/env bash
# Builds the cluster's programs, the suite and the images of its backends from Go modules into .cache/cluster, and runs
# the tests of what is our own among them.
# Nothing is done again that is there already and was made of the same sources.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/settings.sh"
mkdir -p "$BIN" "$CACHE/images"
cd "$CLUSTER"

made_of=$(cat go.sum build.sh parts/*.go bench/*.go load/*.go pause/*.go suite/*.go "$PROJECT"/tools/image/*.go | sha256sum)
if [ "$(cat "$CACHE/made-of" 2>/dev/null)" = "$made_of" ]; then
  exit 0
fi

begun=$SECONDS
done_with() { printf '%4ds  %s\n' $((SECONDS - begun)) "$1"; }
build() { go build -ldflags "-s -w" -o "$BIN/$1" "$2"; }

kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
version=k8s.io/component-base/version
minor=${kubernetes#v1.}
go build -o "$BIN/parts" -ldflags "-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=${minor%%.*}" ./parts
for name in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl etcd helm addresses verdicts statuses; do
  ln -sf parts "$BIN/$name"
done
done_with "Kubernetes, etcd, helm"

go test -c -ldflags "-s -w" -o "$BIN/suite" ./suite
done_with "the suite"

go test ./bench
build bench ./bench
build load ./load
build pause ./pause
build echo-basic sigs.k8s.io/gateway-api-conformance-images/echo-basic
(cd "$PROJECT/tools/image" && go build -o "$BIN/image" .)
"$BIN/image" -binary "$BIN/pause" -name local/pause:1 >"$CACHE/images/pause.tar"
"$BIN/image" -binary "$BIN/load" -name local/load:1 >"$CACHE/images/load.tar"
# Under every name that the suite's manifests have for it.
manifests=$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api/conformance)
mapfile -t names < <(grep -rhoP --include='*.yaml' '\bimage: *\K\S*/echo-basic:\S+' "$manifests/base" "$manifests/tests" | sort -u | sed 's/^/-name=/')
"$BIN/image" -binary "$BIN/echo-basic" "${names[@]}" >"$CACHE/images/echo-basic.tar"
done_with "the suite's backend"

rm -rf "$CACHE/crds"
mkdir -p "$CACHE/crds"
for channel in standard experimental; do
  mkdir "$CACHE/crds/$channel"
  cp --no-preserve=mode "$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/$channel"/gateway.*.yaml "$CACHE/crds/$channel"
done
printf '%s' "$made_of" >"$CACHE/made-of"
done_with "everything"
