#!/usr/bin/env bash
# A chat with a third-party model: a server with the target, and an edge that drafts and shows the answers,
# with accepted draft tokens in colour.
#   deploy/assistant.sh FOLDER OF THE PROGRAMS qwen-coder|smollm2|DRAFT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source deploy/start-server.sh

readonly BIN="${1:-build/release/bin}" PAIR="${2:-smollm2}"
if [ "$PAIR" = qwen-coder ]; then
  readonly NAME=Qwen2.5-Coder-1.5B-Instruct FOLDER=models/qwen-coder
  readonly TARGET=$FOLDER/$NAME-Q4_K_M.gguf DRAFT=$FOLDER/Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf
  server_flags=() edge_flags=(--temp 0)
else
  readonly NAME=SmolLM2-135M-Instruct FOLDER=models/smollm2
  readonly TARGET=$FOLDER/$NAME.Q4_1.gguf
  if [ "$PAIR" = smollm2 ]; then readonly DRAFT=$FOLDER/draft; else readonly DRAFT=$PAIR; fi
  # A model this small repeats itself without sampling.
  server_flags=(--dtype int4) edge_flags=(--dtype int8 --temp 0.6 --top-p 0.9)
fi

for model in "$TARGET" "$DRAFT"; do
  [ -e "$model" ] || { say "assistant: $model is missing. Remedy: ./run model ${FOLDER#models/}"; exit 1; }
done
start_server "$BIN" "$TARGET" "${server_flags[@]}"
say "A server holds $NAME on $address. Ctrl-D ends the chat."
"$BIN/outrider-edge" chat --server "$address" --model "$DRAFT" --color-accept -n 400 "${edge_flags[@]}"
