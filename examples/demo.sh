#!/usr/bin/env bash
# `make demo`: real servers, Tidegate in front of them, and what happens, in plain words. It ends with Ctrl-C, or by
# itself with DEMO=once. A step that does not do what it says ends the demo with an error.
set -euo pipefail
tidegate=$(realpath "${1:?usage: demo.sh TIDEGATE}")
cd "$(dirname "$0")/.."
PATH=$(dirname "$tidegate"):$PATH

bold='' faint='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' faint=$'\e[2m' plain=$'\e[0m'; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
fail() { printf '\nThe demo failed: %s\n' "$*" >&2; exit 1; }

scratch=$(mktemp -d)
started=()
# Each in a group of its own, so that what it starts in turn ends with it.
start() {
  setsid "$@" &
  started+=($!)
}
end_all() {
  # The id alone where the group is not there yet.
  for id in "${started[@]}"; do kill -- "-$id" 2>/dev/null || kill "$id" 2>/dev/null || true; done
  wait
  rm -rf "$scratch"
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# answers PORT: somebody accepts connections there.
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
# until_true COMMAND...: for ten seconds at most.
until_true() {
  for _ in {1..200}; do "$@" && return; sleep 0.05; done
  fail "waited in vain for: $*"
}
# port NAME: a variable with a port that nobody has.
next=$((20000 + $$ % 500 * 20))
port() {
  while answers "$next"; do next=$((next + 1)); done
  printf -v "$1" %s "$next"
  next=$((next + 1))
}
# try COMMAND WORDS: shows the command and what it prints, which must have these words.
try() {
  printf '\n%s$ %s%s\n' "$faint" "$1" "$plain"
  local output
  output=$(timeout 30 bash -c "$1" 2>&1) || true
  printf '%s\n' "$output"
  [[ $output == *"$2"* ]] || fail "there is no \"$2\" in this"
}

serve() {
  port vault; port orders; port customers; port broker; port web; port dns; port admin
  cp -r examples/mixed examples/passthrough examples/tcp-and-udp examples/certificates "$scratch"
  sed -i "s/127.0.0.1:8200/127.0.0.1:$vault/; s/127.0.0.1:1883/127.0.0.1:$broker/" "$scratch/mixed/services.yaml"
  sed -i "s/127.0.0.1:8080, \[::1\]:8080/127.0.0.1:$web/" "$scratch/mixed/services.yaml"
  sed -i "s/127.0.0.1:15432/127.0.0.1:$orders/; s/127.0.0.1:15433/127.0.0.1:$customers/" \
    "$scratch/passthrough/postgres.yaml"
  sed -i "s/127.0.0.1:1053/127.0.0.1:$dns/g" "$scratch/tcp-and-udp/dns.yaml"
  sed -i "s/127.0.0.1:9004/127.0.0.1:$web/" "$scratch/certificates/notes.yaml"
  # 443 is the port of another Gateway here.
  sed -i "s/port: 443/port: 444/" "$scratch/certificates/gateway.yaml"

  # -rev: the server answers each line with the same line backwards.
  local server="openssl s_server -rev -quiet" of=examples/mixed/backend/vault.example.com
  start $server -accept "127.0.0.1:$vault" -cert $of.crt -key $of.key &> /dev/null
  of=examples/passthrough/backend/db.example.com
  start $server -accept "127.0.0.1:$orders" -cert $of.crt -key $of.key &> /dev/null
  start $server -accept "127.0.0.1:$customers" -cert $of.crt -key $of.key &> /dev/null
  start socat "TCP-LISTEN:$broker,bind=127.0.0.1,reuseaddr,fork" SYSTEM:'read line; echo "the broker got $line"'
  # A web server in a line: it reads the head of a request and says how it began.
  start socat "TCP-LISTEN:$web,bind=127.0.0.1,reuseaddr,fork" \
    SYSTEM:'read request; while read line; do case "$line" in ?) break;; esac; done; echo "HTTP/1.0 200 OK"; echo; echo "the site got $request"'
  start socat "TCP-LISTEN:$dns,bind=127.0.0.1,reuseaddr,fork" SYSTEM:'read line; echo "over TCP came $line"'
  start socat "UDP-RECVFROM:$dns,bind=127.0.0.1,reuseaddr,fork" SYSTEM:'read line; echo "over UDP came $line"'
  for backend in $vault $orders $customers $broker $web $dns; do until_true answers "$backend"; done

  say "Three TLS servers, a web server, a plain TCP server and a UDP server run. Tidegate is put in front of them."
  offset=8000
  until run_tidegate; do offset=$((offset + 100)); done
  tls=127.0.0.1:$((443 + offset)) postgres=127.0.0.1:$((5432 + offset)) udp_and_tcp=127.0.0.1:$((5300 + offset))
  https=127.0.0.1:$((444 + offset))
  printf '\n%s$ %s%s\n' "$faint" "$command" "$plain"
  cat "$scratch/log"
}

# Fails where somebody has one of the ports.
run_tidegate() {
  command="tidegate run mixed passthrough tcp-and-udp certificates --certs embedded --state state"
  command+=" --bind 127.0.0.1 --port-offset $offset --admin 127.0.0.1:$admin"
  # What an earlier try has said must not be taken for this one's.
  : > "$scratch/log"
  (cd "$scratch" && exec setsid $command --access-log access.log --drain 1s) 2> "$scratch/log" > /dev/null &
  local id=$!
  started+=("$id")
  until_true grep -q 'serving;' "$scratch/log"
  if grep -q 'cannot be bound' "$scratch/log"; then
    kill "$id"
    wait "$id"
    unset 'started[-1]'
    return 1
  fi
}

# client ADDRESS NAME: a TLS client that checks the certificate for this name.
client() {
  echo "openssl s_client -quiet -connect $1 -servername $2 -verify_hostname $2" \
    "-verify_return_error -CAfile examples/ca.crt"
}

traffic() {
  say "Passthrough: TLS goes through untouched. The certificate is Vault's own, and Vault answers backwards."
  try "printf 'hello\nCLOSE\n' | $(client "$tls" vault.example.com)" olleh

  say "Terminate, on the same port: Tidegate has the certificate of this name, and the broker gets plain text."
  try "echo hello | $(client "$tls" mqtt.example.com)" 'the broker got hello'

  say "HTTPS, on the same port again: requests are looked at one by one, over HTTP/2 here and HTTP/1.1 behind."
  try "curl -sS -i --cacert examples/ca.crt --connect-to ::$tls https://www.example.com/hello" 'the site got GET /hello'

  say "TCP and UDP on one port number."
  try "echo hello | socat - TCP:$udp_and_tcp" 'over TCP came hello'
  try "echo hello | socat -t1 - UDP:$udp_and_tcp" 'over UDP came hello'

  say "A connection for a name that no route has is closed, and Tidegate can tell why."
  try "echo hello | $(client "$postgres" inventory.db.example.com)" 'unexpected eof while reading'
  try "tidegate refused --admin 127.0.0.1:$admin --last 1" 'no route of the listener takes this name'
}

route_of_inventory() {
  sed '1d; /^---/,$d; s/: orders$/: inventory/; s/orders\.db/inventory.db/; s/-orders/-customers/' \
    examples/passthrough/postgres.yaml
}

change() {
  say "A change while it runs. First a connection to the orders database, which stays open ..."
  mkfifo "$scratch/lines"
  start bash -c "exec $(client "$postgres" orders.db.example.com) < $scratch/lines > $scratch/answers 2> /dev/null"
  exec 4<> "$scratch/lines"
  echo 'before the change' >&4
  until_true grep -s 'egnahc eht erofeb' "$scratch/answers"
  say "... then a file with a route for the missing name is moved into the folder ..."
  route_of_inventory > "$scratch/inventory.yaml.new"
  cat "$scratch/inventory.yaml.new"
  mv "$scratch/inventory.yaml.new" "$scratch/passthrough/inventory.yaml"
  until_true grep 'inventory in' "$scratch/log"
  say "... the name is served ..."
  try "printf 'hello\nCLOSE\n' | $(client "$postgres" inventory.db.example.com)" olleh
  say "... and the connection that was there goes on."
  printf 'after the change\nCLOSE\n' >&4
  until_true grep -s 'egnahc eht retfa' "$scratch/answers"
  exec 4>&-

  say "In the access log each connection that Tidegate carried or refused has a line, with the reason of its end."
  until_true grep -q 'route="TLSRoute default/orders"' "$scratch/access.log"
  cat "$scratch/access.log"
}

certificates() {
  say "Certificates for the names on routes. This Gateway has no hostname and no certificate; the route has a name, and the"
  echo "embedded CA made one for it. (It may as well be a public CA: --certs acme.)"
  tidegate certs root --state "$scratch/state" > "$scratch/root.crt" 2> /dev/null
  try "curl -sS --cacert $scratch/root.crt --connect-to ::$https https://notes.example.com/hello" 'the site got GET /hello'
  say "A route with another name is moved into the folder, and a client that checks certificates asks until it is served."
  sed '/^---/,$d; 4s/notes/blog/; s/notes.example/blog.example/' "$scratch/certificates/notes.yaml" > "$scratch/blog.yaml.new"
  cat "$scratch/blog.yaml.new"
  local began=${EPOCHREALTIME/[.,]/}
  mv "$scratch/blog.yaml.new" "$scratch/certificates/blog.yaml"
  until_true curl -fs -o /dev/null --cacert "$scratch/root.crt" --connect-to "::$https" https://blog.example.com/
  say "It was served $(((${EPOCHREALTIME/[.,]/} - began) / 1000)) ms later, with a fresh certificate."
  try "curl -sS --cacert $scratch/root.crt --connect-to ::$https https://blog.example.com/" 'the site got GET /'
  try "tidegate certs list --state $scratch/state" blog.example.com
}

meaning() {
  say "Where would a connection go, and why? The manifests are enough to tell."
  try "tidegate explain examples/mixed --port 443 --sni vault.example.com" 'Service default/vault:8200'

  say "What would a change touch? Here the passthrough route gets another name."
  cp -r examples/mixed "$scratch/new"
  sed -i 's/vault\.example\.com/secrets.example.com/' "$scratch"/new/*.yaml
  try "tidegate diff examples/mixed $scratch/new" 'secrets.example.com'

  say "And this is what mistakes look like."
  sed 's/5432/70000/; s/hostname:/hostnam:/' examples/passthrough/gateway.yaml > "$scratch/broken.yaml"
  try "tidegate check $scratch/broken.yaml" '70000'

  say "The other examples are accepted as they are."
  for example in examples/*/; do
    # Its certificate is made when it is run, and missed until then.
    [ "$example" = examples/certificates/ ] && continue
    tidegate check "$example" > /dev/null || fail "$example is not accepted"
    printf '%s ' "$(basename "$example")"
  done
  printf '\n'
}

serve
traffic
change
certificates
meaning
say "That was all."
if [ "${DEMO:-}" = once ]; then exit; fi
say "It goes on running until Ctrl-C. Try it, and change the files in $scratch, which ends with it:"
cat <<TRY
  $(client "$tls" vault.example.com)
  $(client "$tls" mqtt.example.com)
  $(client "$postgres" orders.db.example.com)
  curl -i --cacert examples/ca.crt --connect-to ::$tls https://shop.example.com/
  curl -i --cacert $scratch/root.crt --connect-to ::$https https://blog.example.com/
  socat - TCP:$udp_and_tcp
  socat - UDP:$udp_and_tcp
  $tidegate status --admin 127.0.0.1:$admin
  $tidegate refused --admin 127.0.0.1:$admin
  curl http://127.0.0.1:$admin/metrics
  tail -f $scratch/access.log
TRY
wait
