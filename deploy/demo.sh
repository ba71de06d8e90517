#!/usr/bin/env bash
# The demo: a server with the target model and an edge with the draft model, two processes that
# talk gRPC over loopback, answer a robot's question together. Leaves nothing running.
#   deploy/demo.sh [FOLDER OF THE PROGRAMS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly BIN="${1:-build/release/bin}"
readonly TARGET=models/demo-target
readonly DRAFT=models/demo-draft
readonly START_SECONDS=60

say() { printf '%s\n' "$*" >&2; }

for needed in "$BIN/outrider-server" "$BIN/outrider-edge" "$TARGET/config.json" "$DRAFT/config.json"; do
  [ -e "$needed" ] || { say "demo: $needed is missing. Remedy: ./run demo"; exit 1; }
done

server_log="$(mktemp)"
server=
cleanup() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -f "$server_log"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$BIN/outrider-server" --model "$TARGET" --port 0 >"$server_log" 2>&1 &
server=$!

# The server says where it listens once it can answer.
address=
for ((tenths = 0; tenths < START_SECONDS * 10; ++tenths)); do
  address="$(awk '$1 == "listening" {print $2}' "$server_log")"
  [ -n "$address" ] && break
  kill -0 "$server" 2>/dev/null || { say "demo: the server ended before it was ready:"; cat "$server_log" >&2; exit 1; }
  sleep 0.1
done
[ -n "$address" ] || { say "demo: the server was not ready within $START_SECONDS s:"; cat "$server_log" >&2; exit 1; }

prompt="$(cat deploy/demo-prompt.txt)"
say "
A server process holds the target model ($TARGET) and listens on $address.
An edge process holds the draft model ($DRAFT), a tenth of the size. The draft
guesses a few tokens ahead, the target checks them all in one pass and adds one token
of its own. Every word below is the target's choice; on a terminal, those that the draft
had guessed right are in colour. The robot is asked:

$prompt

The answer:
"
"$BIN/outrider-edge" run --server "$address" --model "$DRAFT" --color-accept -n 200 -p "$prompt"
say "
The same question to the target alone, token by token, gives the same text. See for yourself:
  $BIN/outrider-server --model $TARGET &
  $BIN/outrider-edge run --strategy ar --tokenizer $DRAFT -f deploy/demo-prompt.txt"
