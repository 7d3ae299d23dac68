#!/bin/sh
# Installs Debian's packages for programs that are missing when run as root, and names them when not:
# `sh debian.sh PROGRAM:PACKAGE...`. Servers among them are for tests to start: none is started here.
set -eu

# Servers are often where only root looks, and PostgreSQL's where nobody does.
PATH=$PATH:/usr/sbin:/sbin
for folder in /usr/lib/postgresql/*/bin; do
    PATH=$PATH:$folder
done

missing=""
for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
if [ -z "$missing" ]; then
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "missing:$missing (Debian: apt-get install$missing)" >&2
    exit 1
fi

# What a package's scripts ask before they start a service; 101 is no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
apt-get update -qq
# shellcheck disable=SC2086 # one word for each package
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
