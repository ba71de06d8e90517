#!/bin/sh
# Prints the Debian packages of a program's shared libraries, one per line. Libraries under /opt and
# /usr/local belong to no package.
#   docker/libraries.sh PROGRAM
set -eu
libraries="$(ldd "$1")"
if echo "${libraries}" | grep -F 'not found' >&2; then exit 1; fi
echo "${libraries}" | awk '$2 == "=>" && $3 !~ /^\/(opt|usr\/local)\// {print $3}' | while read -r library; do
  real="$(readlink -f "${library}")"
  # Debian 12 lists some files below /lib, which is a link to /usr/lib.
  dpkg-query -S "${real}" 2>/dev/null || dpkg-query -S "${real#/usr}"
done | sed 's/:.*//' | sort -u
