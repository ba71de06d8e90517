#!/usr/bin/env bash
# The demo: a server with the target model and an edge with the draft model, two processes that talk gRPC over
# loopback, answer a robot's question together. It leaves nothing running.
#   deploy/demo.sh [FOLDER OF THE PROGRAMS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly BIN="${1:-build/release/bin}"
readonly TARGET=models/demo-target
readonly DRAFT=models/demo-draft
export OUTRIDER_STATE_DIR=none  # the same screen each time: earlier answers do not count
source deploy/start-server.sh

for needed in "$BIN/outrider-server" "$BIN/outrider-edge" "$TARGET/config.json" "$DRAFT/config.json"; do
  [ -e "$needed" ] || { say "demo: $needed is missing. Remedy: ./run demo"; exit 1; }
done

start_server "$BIN" "$TARGET"

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

[ -x "$BIN/outrider-race" ] || exit 0
"$BIN/outrider-race" --target "$TARGET" --draft "$DRAFT" --prompt-file deploy/demo-prompt.txt >/dev/null
