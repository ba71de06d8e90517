# SPDX-License-Identifier: Apache-2.0
"""The versions of the libraries whose answers are written down as goldens."""
import importlib.metadata
import pathlib
import sys

REQUIREMENTS = pathlib.Path(__file__).resolve().parent / "requirements.txt"


def made_with(*packages):
    """{package: version} of those that answer here. Ends the program unless they are those of requirements.txt."""
    pinned = dict(line.split("==") for line in REQUIREMENTS.read_text().split() if "==" in line)
    found = {package: importlib.metadata.version(package) for package in packages}
    for package, version in found.items():
        if version != pinned[package]:
            sys.exit(f"{package} is {version}, {REQUIREMENTS.name} says {pinned[package]}. Remedy: pip install -r {REQUIREMENTS}, "
                     "or name the new version there and write all goldens anew")
    return found
