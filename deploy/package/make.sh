#!/usr/bin/env bash
# Packs both programs of a build: a .deb for each, a tarball and a Python wheel of both, and the checksums of these. Each
# carries its bill of materials and licences. They go into BUILD/package. The names of those with --device cuda end on -cuda,
# the wheel's version on +cuda.
#   deploy/package/make.sh BUILD CPU        as in: deploy/package/make.sh build/release x86_64
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly BUILD="$1" CPU="$2"
readonly OUT="$BUILD/package" WHEEL="$BUILD/wheel"
version="$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$BUILD/CMakeCache.txt")"
readonly TREE="$BUILD/tree/outrider-$version"
grep -q '^OUTRIDER_GPU:[A-Z]*=ON$' "$BUILD/CMakeCache.txt" && gpu=cuda || gpu=''
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct 2>/dev/null || date +%s)"  # the same commit gives the same dates
export SOURCE_DATE_EPOCH

rm -rf "$OUT" "$WHEEL" "$BUILD/tree"
(cd "$BUILD" && cpack -G DEB -B package >&2)
rm -rf "$OUT/_CPack_Packages"

cmake --install "$BUILD" --prefix "$TREE" --strip >/dev/null
cp LICENSE "$TREE"
tar czf "$OUT/outrider-$version-linux-$CPU${gpu:+-$gpu}.tar.gz" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
  -C "$BUILD/tree" "outrider-$version"

# A wheel that carries programs: the Python package with what it finds in its own folder (python/outrider/programs.py).
[ -x .venv/bin/pip ] || python3 -m venv .venv
cp -r python "$WHEEL"
sed -i "s/^version = \"\(.*\)\"/version = \"\1${gpu:++$gpu}\"/" "$WHEEL/pyproject.toml"
mkdir -p "$WHEEL/outrider/bin" "$WHEEL/outrider/doc"
cp "$TREE"/bin/* "$WHEEL/outrider/bin"
for program in outrider-edge outrider-server; do
  mkdir "$WHEEL/outrider/doc/$program"
  cp -r "$TREE/share/doc/$program"/{sbom.spdx.json,licences} "$WHEEL/outrider/doc/$program"
done
# Systems with glibc 2.34 may have a C++ library that is older than GCC 12's. So the wheel is for 2.35, as auditwheel says.
.venv/bin/pip wheel --disable-pip-version-check --quiet --no-deps --wheel-dir "$OUT" \
  "--config-settings=--build-option=--plat-name=manylinux_2_35_$CPU" "./$WHEEL" >&2

(cd "$OUT" && sha256sum -- *.deb *.tar.gz *.whl >SHA256SUMS)
ls "$OUT"/*
