#!/usr/bin/env bash
# Lints the chart and renders it: install.yaml with the values as they are, and golden/NAME.yaml with those of
# golden/NAME.values.yaml. What is written down must be what is rendered.
#
#   charts/render.sh HELM            compare
#   UPDATE=1 charts/render.sh HELM   write it anew; read the diff before you commit it
set -euo pipefail
helm=$(realpath --no-symlinks "$1")
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/golden" "$work/tidegate/files"
# The one that the controller's tests are held against.
cp ../crates/kubernetes/crds/gatewayparameters.yaml "$work/tidegate/files/"
if [ -n "${UPDATE:-}" ]; then cp "$work/tidegate/files/gatewayparameters.yaml" tidegate/files/; fi

render() { # render ARGUMENT...
  "$helm" template tidegate tidegate --namespace tidegate-system --kube-version 1.37 "$@" | sed 's/[[:space:]]*$//'
}

"$helm" lint --strict --quiet tidegate
{
  echo "# Tidegate with the values of charts/tidegate as they are; charts/render.sh wrote it."
  echo "# Gateway API's CRDs come first, and not from here: docs/install.md."
  printf 'apiVersion: v1\nkind: Namespace\nmetadata:\n  name: tidegate-system\n'
  render
} >"$work/install.yaml"
for values in golden/*.values.yaml; do
  "$helm" lint --strict --quiet --values "$values" tidegate
  render --values "$values" >"$work/${values%.values.yaml}.yaml"
done

# Values that are none are refused, each for its own reason.
while IFS='|' read -r setting expected; do
  if message=$(render --set "$setting" 2>&1) || ! grep -qF -- "$expected" <<<"$message"; then
    printf 'with %s: expected "%s", not:\n%s\n' "$setting" "$expected" "$message" >&2
    exit 1
  fi
done <golden/refused.txt

for file in install.yaml tidegate/files/gatewayparameters.yaml golden/*.values.yaml; do
  file=${file%.values.yaml}
  file=${file%.yaml}.yaml
  if [ -n "${UPDATE:-}" ]; then
    cp "$work/$file" "$file"
  else
    diff -u "$file" "$work/$file"
  fi
done
