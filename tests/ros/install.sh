#!/usr/bin/env bash
# Puts ROS 2 and Outrider's packages for it into a folder, as a virtual environment of Python 3.11:
#   tests/ros/install.sh kilted .venv-ros-kilted
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
distribution="$1" venv="$PWD/$2"

sources() { find deploy/ros2 python/outrider python/pyproject.toml tests/ros -type f -not -name '*.pyc' -not -name '*_test.py' -print0; }
stamp="$(sources | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-64)"
[ "$(cat "$venv/.outrider" 2>/dev/null)" = "$stamp" ] && exit

trap 'rm -rf "$venv"' ERR  # a test takes a folder that is there for a whole one
python3 -m venv --clear "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check -r "tests/ros/$distribution.txt"

# The wheels name the headers of the machine that built them.
python_headers="$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')"
numpy_headers="$("$venv/bin/python" -c 'import numpy; print(numpy.get_include())')"
grep -rlZ '/cp311-cp311/' "$venv/share" --include='*.cmake' | xargs -0 -r sed -i -E \
  -e "s#/[a-z/]+/cp311-cp311/include/python3\.[0-9]+#$python_headers#g" \
  -e "s#/[a-z/]+/cp311-cp311/lib/python3\.[0-9]+/site-packages/numpy/(_core/)?include#$numpy_headers#g"

build="$venv/build"
libraries="$venv/lib:$(printf '%s:' "$venv"/lib/python3*/site-packages/ros_*.libs)"
(
  export PATH="$venv/bin:$PATH" AMENT_PREFIX_PATH="$venv" LD_LIBRARY_PATH="$libraries" _ROS_WHEELS_BOOTSTRAP_COMPLETE=1
  unset PYTHONPATH
  cmake -S deploy/ros2/outrider_interfaces -B "$build" -G Ninja --log-level=WARNING -Wno-deprecated \
    -DCMAKE_PREFIX_PATH="$venv" -DCMAKE_INSTALL_PREFIX="$venv" -DPython3_EXECUTABLE="$venv/bin/python" -DPython3_FIND_VIRTUALENV=ONLY
  cmake --build "$build" >"$build/log" || { cat "$build/log"; exit 1; }
  cmake --install "$build" >/dev/null
)
# From copies, because setuptools builds beside its sources.
cp -r python deploy/ros2/outrider_ros "$build/"
"$venv/bin/pip" install -q --disable-pip-version-check --no-deps --no-build-isolation "$build/python" "$build/outrider_ros"
rm -r "$build"
echo "$stamp" >"$venv/.outrider"
