#!/usr/bin/env bash
# A chat with SmolLM2-135M-Instruct: a server with the model, an edge that shows its answers. With
# a draft (models/train-smollm2.sh) the edge speculates; without one the server decodes alone.
#   deploy/assistant.sh FOLDER OF THE PROGRAMS [DRAFT]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly BIN="${1:-build/release/bin}" DRAFT="${2:-}"
readonly TARGET=models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
source deploy/start-server.sh

[ -e "$TARGET" ] || { say "assistant: $TARGET is missing. Remedy: ./run model smollm2"; exit 1; }
start_server "$BIN" "$TARGET" --dtype int4
edge=(--server "$address" --tokenizer "$TARGET")
if [ -n "$DRAFT" ]; then
  edge+=(--model "$DRAFT" --color-accept)
else
  edge+=(--strategy ar)
  say "No draft was given, so the server decodes alone: models/train-smollm2.sh makes one."
fi
say "A server holds SmolLM2-135M-Instruct on $address. Ctrl-D ends the chat."
"$BIN/outrider-edge" chat "${edge[@]}"
