#!/usr/bin/env bash
# Unpacks Debian's Arm packages into a folder, to compile with them and to run programs under qemu-user.
# Nothing is installed.
#   deploy/arm64-sysroot.sh FOLDER PACKAGE..
set -euo pipefail

folder="$1"; shift
[ "$(cat "$folder/.complete" 2>/dev/null)" = "$*" ] && exit
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$(IFS=,; echo "$*")" bookworm "$folder"

# Absolute links would lead to this machine's files.
find "$folder/usr" -type l -lname '/*' | while read -r link; do
  inside="$folder$(readlink "$link")"
  [ ! -e "$inside" ] || ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$inside")" "$link"
done
echo "$*" >"$folder/.complete"
