#!/usr/bin/env bash
# A chat with SmolLM2-135M-Instruct: a server with the model, an edge that drafts and shows its
# answers, what the draft guessed in colour.
#   deploy/assistant.sh FOLDER OF THE PROGRAMS [DRAFT]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly BIN="${1:-build/release/bin}" DRAFT="${2:-models/smollm2/draft}"
readonly TARGET=models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
source deploy/start-server.sh

for model in "$TARGET" "$DRAFT"; do
  [ -e "$model" ] || { say "assistant: $model is missing. Remedy: ./run model smollm2"; exit 1; }
done
start_server "$BIN" "$TARGET" --dtype int4
say "A server holds SmolLM2-135M-Instruct on $address. Ctrl-D ends the chat."
"$BIN/outrider-edge" chat --server "$address" --model "$DRAFT" --dtype int8 --color-accept \
  --temp 0.6 --top-p 0.9 -n 400 # so small a model repeats itself where it may not choose
