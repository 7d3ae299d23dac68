#!/usr/bin/env bash
# Stops the cluster, if there is one, and clears its state away; logs stay until the next one.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/settings.sh"
gone() { ! kill -0 "$1" 2>/dev/null; }

if pid=$(cluster_pid); then
  # Everything else in its namespace of processes ends with it.
  kill -KILL "$pid"
  wait_for 30 gone "$pid"
fi
if [ -e "$STATE/sysctls" ]; then
  sysctl -qp "$STATE/sysctls" || true
fi
# A cgroup is removed once those inside it are.
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*/; do
  if [ -d "$hierarchy/$CGROUP" ]; then
    wait_for 20 find "$hierarchy/$CGROUP" -depth -type d -exec rmdir {} + || true
  fi
done
mkdir -p "$CACHE"
if [ -d "$STATE" ]; then
  rm -rf "$CACHE/last-log"
  if [ -d "$LOG" ]; then mv "$LOG" "$CACHE/last-log"; fi
  rm -rf "$STATE"
fi
rm -f "$KUBECONFIG"
