#!/usr/bin/env bash
# Trains SmolLM2-135M-Instruct's draft completely: text, the target's own answers, labels, a shortlist, and
# three of its thirty layers. The same command resumes after a break: each step keeps its results.
#   models/train-smollm2.sh DATA OUT [BIN]
# DATA: a folder with GSM8K's train.jsonl, MBPP's sanitized tasks and OASST's prompts, as
#   gsm8k/train.jsonl, mbpp/mbpp_sanitized_for_code_generation.jsonl, oasst/oasst_prompts.json,
#   wikitext/wikitext-2-valid.txt
# Hours on two idle cores with AVX2, without the target's own prompts: answers 2 (PROBLEMS=2000), labels 1,
# training 2. With AVX-512 such prompts and their answers took 1.1 more (OWN=7000).
# SHARD, PROBLEMS, OWN, STEPS, LAYERS change the amount.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }

readonly DATA="$1" OUT="$2" BIN="${3:-build/release/bin}"
readonly TARGET="${TARGET:-models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf}"
readonly PROBLEMS="${PROBLEMS:-2000}" OWN="${OWN:-7000}" SHARD="${SHARD:-100}" STEPS="${STEPS:-4000}"
readonly LAYERS="${LAYERS:-0,1,29}"

say() { printf '==> %s\n' "$*" >&2; }
train() { "$BIN/outrider-train" "$@"; }
# once FILE COMMAND..: makes FILE, which the command writes as its --out; FILE appears only when complete.
once() {
  local file="$1"; shift
  [ -s "$file" ] && return
  train "$@" --out "$file.part"
  mv "$file.part" "$file"
}

[ -e "$TARGET" ] || { say "$TARGET is missing. Remedy: ./run model smollm2"; exit 1; }
mkdir -p "$OUT/prompts" "$OUT/answers"

say "text"
once "$OUT/gsm8k.jsonl" data-gsm8k --in "$DATA/gsm8k/train.jsonl" --split train
once "$OUT/mbpp.jsonl" data-mbpp --in "$DATA/mbpp/mbpp_sanitized_for_code_generation.jsonl"
once "$OUT/turns.jsonl" data-turns --in "$DATA/oasst/oasst_prompts.json"
once "$OUT/own.jsonl" data-own --model "$TARGET" --count "$OWN" --batch 96 --max-tokens 160 --seed 11
once "$OUT/wikitext.jsonl" data-wikitext --in "$DATA/wikitext/wikitext-2-valid.txt"

# The target answers itself, because a draft must predict this target's text, right or wrong. Prompts of one
# length are answered together, so they are sorted by length.
say "the target's own answers"
if [ ! -e "$OUT/prompts/done" ]; then
  { head -n "$PROBLEMS" "$OUT/gsm8k.jsonl"; cat "$OUT/mbpp.jsonl" "$OUT/turns.jsonl" "$OUT/own.jsonl"; } |
    awk '{ printf "%d\t%s\n", length($0), $0 }' | sort -n -s -k1,1 | cut -f2- |
    split -l "$SHARD" -d -a 4 --additional-suffix=.jsonl - "$OUT/prompts/"
  touch "$OUT/prompts/done"
fi
answers=()
for prompts in "$OUT"/prompts/*.jsonl; do
  file="$OUT/answers/${prompts##*/}"
  once "$file" generate --model "$TARGET" --prompts "$prompts" --max-tokens 200
  answers+=(--answers "$file")
done
head -n 60 "$OUT/wikitext.jsonl" >"$OUT/wikitext-part.jsonl"

say "labels"
train label --model "$TARGET" --dtype int8 "${answers[@]}" --text "$OUT/wikitext-part.jsonl" --top-k 24 --out "$OUT/labels"

say "shortlist"
once "$OUT/head-tokens.json" shortlist --labels "$OUT/labels" --model "$TARGET" --size 8192

say "draft"
train distill --target "$TARGET" --labels "$OUT/labels" --init "prune:$LAYERS" --head-tokens "$OUT/head-tokens.json" \
  --steps "$STEPS" --step-tokens 2048 --warmup 50 --learning-rate 6e-4 --weight-decay 0.01 --greedy-weight 0.5 \
  --evaluate-every 50 --checkpoint-every 100 --patience 8 --resume --out "$OUT/draft"
train compose --target "$TARGET" --layers "$OUT/draft" --out "$OUT/composed"
say "the draft's layers are in $OUT/draft, the whole draft in $OUT/composed"
