#!/usr/bin/env bash
# In the cluster that is up: every object that the tests of reading and translating have is put to the API server by a
# dry run, and to `tidegate check`. Those on which the two differ must be those of verdicts-CHANNEL.txt.
#
#   conformance/verdicts.sh TIDEGATE CHANNEL            compare
#   UPDATE=1 conformance/verdicts.sh TIDEGATE CHANNEL   write the list anew
set -euo pipefail
tidegate=$(realpath "$1")
channel=$2
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/cluster/settings.sh"
cd "$PROJECT"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Files under yaml/ are about text that is no object.
find crates/api/tests/corpus crates/translate/tests/golden examples -name '*.yaml' -not -path '*/invalid/yaml/*' \
  -not -name 'out.yaml' | LC_ALL=C sort |
  "$CLUSTER/in.sh" verdicts -kubeconfig "$KUBECONFIG" -tidegate "$tidegate" -channel "$channel" >"$work/found" 2>"$work/messages"
if [ -n "${UPDATE:-}" ]; then
  cp "$work/found" "$here/verdicts-$channel.txt"
elif ! diff -u "$here/verdicts-$channel.txt" "$work/found"; then
  cat "$work/messages" >&2
  exit 1
fi
tail -n 1 "$work/messages" | cut -d' ' -f3-
