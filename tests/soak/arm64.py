#!/usr/bin/env python3
"""Lets the programs of the Arm packages answer the demo under qemu-user. Their text must equal plain decoding's, and
that of this machine's own programs.

  ./run package arm64 && ./run build && tests/soak/arm64.py

Inconclusive (exit code 4) without the packages, Debian's Arm libraries or qemu.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from demo import answer_demo

from edges import BIN, ROOT
from outcome import Outcome

LIBRARIES = Path(os.environ.get('OUTRIDER_SYSROOT', ROOT / '.cache/arm64'))
REMEDY = 'Remedy: ./run package arm64, and apt-get install qemu-user'


def unpack(part, folder):
    """Makes the package's program run like one of this machine. False: there is no package."""
    packages = sorted((ROOT / 'build/arm64/package').glob(f'outrider-{part}_*_arm64.deb'))
    if not packages:
        return False
    subprocess.run(['dpkg-deb', '-x', packages[-1], folder / part], check=True)
    program = folder / part / f'usr/bin/outrider-{part}'
    script = folder / program.name
    script.write_text(f'#!/bin/sh\nexec {shlex.join(["qemu-aarch64", "-L", str(LIBRARIES), str(program)])} "$@"\n', encoding='utf-8')
    script.chmod(0o755)
    return True


def run(outcome):
    if not shutil.which('qemu-aarch64') or not LIBRARIES.exists():
        return outcome.mark_inconclusive(f'qemu-aarch64, or {LIBRARIES}, is missing. {REMEDY}')
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not all(unpack(part, folder) for part in ('server', 'edge')):
            return outcome.mark_inconclusive(f'there are no packages for Arm. {REMEDY}')
        texts = {'Arm': answer_demo(folder, ROOT / 'models', outcome), 'this machine': answer_demo(BIN, ROOT / 'models', outcome)}
    different = len(set(texts.values())) - 1
    for where, text in texts.items():
        print(f'{where}: {text}', file=sys.stderr)
    outcome.hold('texts that differ from this machine\'s', (different, different, different), 0, at_least=False)


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    outcome = Outcome('arm64')
    run(outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
