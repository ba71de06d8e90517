#!/bin/sh
# Asks the registries whether the pins of this folder are right: the digest of each image under its tag. Needs
# skopeo and the network.
#   docker/verify-pins.sh
# Exit code: 0 all pins are right; 1 one differs (the output says which one, where, and the current value); 2
# one could not be checked. SPDX-License-Identifier: Apache-2.0
set -u
cd "$(dirname "$0")" || exit 2
worst=0

# note CODE TEXT
note() {
  echo "$2"
  case "$1${worst}" in
    1?) worst=1 ;;
    20) worst=2 ;;
  esac
}

# judge WHERE NAME PINNED FOUND
judge() {
  if [ -z "$4" ]; then
    note 2 "unknown    $1: $2 could not be checked"
  elif [ "$3" = "$4" ]; then
    note 0 "ok         $1: $2"
  else
    note 1 "DIFFERENT  $1: $2 is $4, pinned is $3. Remedy: find out why before you change the pin"
  fi
}

if ! command -v skopeo >/dev/null; then
  echo "skopeo is missing. Remedy: apt-get install skopeo"
  exit 2
fi

for file in Dockerfile cuda.Dockerfile compose.yaml; do
  for pin in $(grep -Eo '[a-z0-9./-]+:[A-Za-z0-9._-]+@sha256:[0-9a-f]{64}' "${file}" | sort -u); do
    judge "${file}" "${pin%@*}" "${pin#*@}" "$(skopeo inspect --no-tags --format '{{.Digest}}' "docker://${pin%@*}" 2>/dev/null)"
  done
done

exit "${worst}"
