#!/usr/bin/env bash
# Runs the official conformance suite against Tidegate in a cluster of its own (README.md).
#
#   CHANNEL=standard|experimental|both   which CRDs; both one after the other, by default
#   RUN=TestName                         one test of the suite; then no report is written
#   KEEP=1                               leave the last cluster up, to look around with conformance/cluster/in.sh
#   PROFILE=dev|release                  what Tidegate is built with; dev by default
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/cluster/settings.sh"
channels=${CHANNEL:-both}
case $channels in
  both) channels="standard experimental" ;;
  standard | experimental) ;;
  *) echo "CHANNEL is standard, experimental or both" >&2; exit 2 ;;
esac
in=$CLUSTER/in.sh
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$PROJECT/Cargo.toml")
tidegate=$PROJECT/target/$([ "${PROFILE:-dev}" = dev ] && echo debug || echo "$PROFILE")/tidegate
image=$PROJECT/.cache/image/tidegate.tar

# Logs of containers outlive their Pods in $logs, as further names of the same files.
keep_logs() {
  cp -alu "$LOG/pods/." "$logs/pods/" 2>/dev/null || true
}
leave() {
  local process
  for process in ${watcher:-} ${suite:-}; do kill "$process" 2>/dev/null || true; done
  if [ -n "${logs:-}" ] && cluster_pid >/dev/null; then
    keep_logs
    cp "$LOG"/*.log "$logs/" 2>/dev/null || true
    "$in" kubectl get events -A --sort-by=.lastTimestamp >"$logs/events.txt" 2>&1 || true
    "$in" kubectl get gatewayclasses,gateways,listenersets,httproutes,grpcroutes,tlsroutes,tcproutes,udproutes,backendtlspolicies,services,deployments,pods -A -o yaml >"$logs/objects.yaml" 2>&1 || true
  fi
  if [ -z "${KEEP:-}" ]; then "$CLUSTER/down.sh"; fi
}
trap leave EXIT
trap 'exit 130' INT TERM

conformance() { # conformance CHANNEL
  local channel=$1 report=$here/reports/$version-$1.yaml arguments=() outcome=0
  logs=$PROJECT/.cache/conformance/$channel
  rm -rf "$logs"
  mkdir -p "$logs/pods" "$here/reports"
  echo "== $channel channel"
  "$here/install.sh" "$channel" "$image"
  if [ -z "${RUN:-}" ]; then
    "$here/verdicts.sh" "$tidegate" "$channel"
  fi
  while sleep 1; do keep_logs; done &
  watcher=$!

  if [ -n "${RUN:-}" ]; then
    arguments=(-test.run "^TestConformance\$/^$RUN\$")
  else
    arguments=(-test.run '^TestConformance$' -report-output "$logs/report.yaml"
      -organization tidegate -project tidegate -url https://tidegate.io
      -version "$version" -contact https://tidegate.io)
  fi
  # Not in the foreground, where a signal would have to wait for its end.
  "$in" "$BIN/suite" -test.v -test.timeout 60m "${arguments[@]}" -gateway-class tidegate \
    -conformance-profiles GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS,GATEWAY-TCP,GATEWAY-UDP \
    -usable-address "$USABLE" -unusable-address "$UNUSABLE" >"$logs/suite.txt" 2>&1 &
  suite=$!
  wait "$suite" || outcome=$?
  suite=
  grep -E '^ {4}--- (PASS|FAIL)' "$logs/suite.txt" | sed 's/^ *--- //' || true
  kill "$watcher"
  watcher=

  if [ -z "${RUN:-}" ] && [ -e "$logs/report.yaml" ]; then
    OUTPUT=$logs/suite.txt REPORT=$logs/report.yaml CHANNEL=$channel \
      "$BIN/suite" -test.v -test.run '^TestNothingWasLeftOut$' || outcome=1
  fi
  if [ "$outcome" = 0 ] && [ -z "${RUN:-}" ]; then
    "$here/statuses.sh" "$tidegate" "$channel" || outcome=1
  fi
  if [ "$outcome" != 0 ]; then
    echo "failed in the $channel channel; logs are in ${logs#"$PROJECT"/}" >&2
    exit 1
  fi
  # Only now: a run that failed leaves the last good report alone.
  if [ -z "${RUN:-}" ]; then
    cp --no-preserve=mode "$logs/report.yaml" "$report"
  fi
}

"$CLUSTER/build.sh"
"$PROJECT/charts/render.sh" "$BIN/helm"
PROFILE=${PROFILE:-dev} "$PROJECT/tools/image.sh" "$image"
for channel in $channels; do
  conformance "$channel"
done
