#!/usr/bin/env bash
# The questions to a bare machine with one H100 or H200: whether our kernels, a model and a server on them have the CPU's
# bits there, and how fast they are. Each step ends within ten minutes and may be run alone.
#
#   bench/gpu/lease.sh pack            where it was built: programs and libraries as build/lease.tar.xz, to carry there
#   bench/gpu/lease.sh [STEP..]        on the machine, in the carried tree: bits speed memory server [all of them]
#   bench/gpu/lease.sh --host          without a GPU: all that proves correctness, by fibers
#
# Results go to $OUT [build/lease/out], a file a step, and one table to stdout. Exit code 1 if a bit or a text differs.
# Needs a build with OUTRIDER_GPU (docs/gpu.md) or, for --host, with OUTRIDER_TESTS.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly BUILD=${BUILD:-build/release} LEASE=build/lease ARCHIVE=build/lease.tar.xz
OUT=${OUT:-$LEASE/out}
readonly TARGET=models/demo-target
failed=()

# step NAME COMMAND..: its output goes to a file, its last line to the table.
step() {
  local name="$1" begin=$SECONDS code=0; shift
  timeout 600 "$@" >"$OUT/$name.txt" 2>"$OUT/$name.err" || code=$?
  printf '%-8s %-10s %4d s  %s\n' "$name" "$([ $code = 0 ] && echo holds || echo "FAILED $code")" $((SECONDS - begin)) \
    "$(tail -n 1 "$OUT/$name.txt")"
  [ $code = 0 ] || failed+=("$name")
}

pack() {
  local program
  mkdir -p $LEASE/bin $LEASE/lib
  for program in outrider-gpu-check outrider-server outrider-edge; do
    cp "$BUILD/bin/$program" $LEASE/bin/
    strip $LEASE/bin/$program
    # The C library comes with the machine: one of another version would not start.
    ldd "$BUILD/bin/$program" | awk '$3 ~ /^\// && $1 !~ /^(libc|libm|libdl|librt|libpthread|ld-linux.*)\.so/ {print $3}' |
      xargs -r cp -L -t $LEASE/lib
  done
  tar -C $LEASE -cJf $ARCHIVE bin lib
  du -h $ARCHIVE
}

bits() { step bits "$LEASE/bin/outrider-gpu-check" --only-bits --model $TARGET --dtype f32,bf16,int8,int4 --cases 14; }
speed() { step speed "$LEASE/bin/outrider-gpu-check" --only-speed --json "$OUT/speed.json"; }
memory() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "memory   skipped: no compute-sanitizer on this machine"
    return
  fi
  step memory compute-sanitizer --error-exitcode 1 "$LEASE/bin/outrider-gpu-check" --only-bits --quick
}
server() {
  step server python3 bench/gpu/server_check.py --bin $LEASE/bin --dtype f32 bf16 int8 int4 --shape-7b --json "$OUT/server.json"
}

# The same by fibers, as far as it fits: ./run gpu-proof does more, and takes longer.
host() {
  step kernels "$BUILD/tests/unit_cuda_kernels"
  step model "$BUILD/tests/unit_cuda_model"
  step proof "$BUILD/bin/outrider-gpu-proof" --outputs 500000 --choices 2000 --model $TARGET --dtype int8 --cases 1
  step server python3 bench/gpu/server_check.py --bin "$BUILD/bin" --device host-cuda --dtype int8 --num-prompts 4 \
    --tokens 32 --only-texts
}

mkdir -p "$OUT"
carried() {
  [ -d $LEASE/bin ] || python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' $ARCHIVE $LEASE
  export LD_LIBRARY_PATH="$PWD/$LEASE/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}
case "${1:-}" in
  pack) pack; exit ;;
  --host) host ;;
  '') carried; for each in bits speed memory server; do "$each"; done ;;
  *)
    carried
    for each in "$@"; do
      case "$each" in
        bits | speed | memory | server) "$each" ;;
        *) echo "lease.sh: there is no step '$each'. Remedy: bits, speed, memory, server, pack or --host" >&2; exit 2 ;;
      esac
    done ;;
esac
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}; see $OUT"; exit 1; }
