#!/usr/bin/env python3
"""Tries what ./run package made on a Debian 12 and a Debian 13 that know nothing of Outrider: the tarball's and the packages'
programs answer the demo, and the wheel answers from Python in an empty environment, within a minute of pip's start.

  ./run package && tests/soak/portable.py [--suite bookworm --suite trixie] [--systems FOLDER]

The systems are made by mmdebstrap, and copies of those in FOLDER where they were made earlier. Needs root and the network. pip's settings in the environment (PIP_*) hold inside, too.
Inconclusive (exit code 4) without the packages or a tool.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from demo import answer_demo

from edges import ROOT
from outcome import Outcome

PACKAGES = ROOT / 'build/release/package'
PARTS = ('edge', 'server')
TOOLS = ('mmdebstrap', 'unshare', 'chroot')
BARE = 'ca-certificates,python3,python3-venv'  # beside what apt itself needs
INSIDE = ('mkdir -p {root}/models && mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && mount --bind {models} {root}/models && '
          'exec chroot {root} "$@"')
MOST_SECONDS = 60  # from pip's start to an answer
ASK = '''
import outrider
with outrider.Edge("--target", "/models/demo-target", "--model", "/models/demo-draft", "--offline") as edge:
    print(edge.client.chat("In view: silver bottle 20 degrees left at 2.1 m. Task: find the silver bottle.", max_tokens=60).text)
'''


class System:
    """A bare Debian in a folder, with the demo pair mounted at /models."""

    def __init__(self, suite, folder, kept):
        self.suite, self.root, self.bin = suite, folder / suite, folder / f'{suite}-bin'
        self.bin.mkdir()
        bare = kept / suite if kept else self.root
        if not bare.exists():
            subprocess.run(['mmdebstrap', '--quiet', '--variant=minbase', f'--include={BARE}', suite, bare], check=True)
        if kept:
            subprocess.run(['cp', '-a', bare, self.root], check=True)
        for file in ('/etc/resolv.conf', '/etc/hosts', os.environ.get('PIP_CERT')):
            if file:
                shutil.copy(file, self.root / file.lstrip('/'))

    def command(self, *words):
        inside = INSIDE.format(root=shlex.quote(str(self.root)), models=shlex.quote(str(ROOT / 'models')))
        settings = [f'{name}={value}' for name, value in os.environ.items() if name.startswith('PIP_') and name != 'PIP_FIND_LINKS']
        return ['unshare', '--mount', 'sh', '-c', inside, 'sh', 'env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root', 'LC_ALL=C.UTF-8',
                'OUTRIDER_STATE_DIR=none', 'DEBIAN_FRONTEND=noninteractive', *settings, *words]

    def run(self, *words):
        return subprocess.run(self.command(*words), stdout=subprocess.PIPE, text=True, check=True).stdout

    def answers_demo(self, inside, outcome):
        """Whether the programs of a folder inside answer the demo, the text of plain decoding."""
        for part in PARTS:
            script = self.bin / f'outrider-{part}'
            script.write_text(f'#!/bin/sh\nexec {shlex.join(self.command(f"{inside}/outrider-{part}"))} "$@"\n', encoding='utf-8')
            script.chmod(0o755)
        return answer_demo(self.bin, Path('/models'), outcome)


def try_tarball(system, tarball, outcome):
    subprocess.run(['tar', 'xzf', tarball, '-C', system.root / 'opt'], check=True)
    folder = next((system.root / 'opt').glob('outrider-*'))
    return system.answers_demo(f'/opt/{folder.name}/bin', outcome)


def try_packages(system, packages, outcome):
    for package in packages:
        shutil.copy(package, system.root / 'srv')
    system.run('apt-get', '-q', 'update')
    system.run('apt-get', '-q', '-y', 'install', '--no-install-recommends', *(f'/srv/{package.name}' for package in packages))
    if not system.run('getent', 'passwd', 'outrider'):
        outcome.fail(f'{system.suite}: the packages made no user')
    return system.answers_demo('/usr/bin', outcome)


def try_wheel(system, wheel, outcome):
    """Seconds from pip's start to the answer, and the answer."""
    shutil.copy(wheel, system.root / 'srv')
    system.run('python3', '-m', 'venv', '/srv/venv')
    began = time.monotonic()
    system.run('/srv/venv/bin/pip', 'install', '-q', f'/srv/{wheel.name}')
    text = system.run('/srv/venv/bin/python', '-c', ASK)
    took = time.monotonic() - began
    system.run('/srv/venv/bin/pip', 'install', '-q', 'auditwheel')
    if wheel.stem.split('-')[-1] not in system.run('/srv/venv/bin/auditwheel', 'show', f'/srv/{wheel.name}'):
        outcome.fail(f'{system.suite}: auditwheel names another platform than the wheel')
    return took, text.strip()


def try_system(system, outcome):
    """The demo's texts and the wheel's seconds."""
    suite = system.suite
    texts = {try_tarball(system, next(PACKAGES.glob('*.tar.gz')), outcome), try_packages(system, sorted(PACKAGES.glob('*.deb')), outcome)}
    seconds, text = try_wheel(system, next(PACKAGES.glob('*.whl')), outcome)
    print(f'{suite}: {texts}; the wheel after {seconds:.1f} s: {text}', file=sys.stderr)
    if 'Action:' not in text:
        outcome.fail(f'{suite}: the wheel says {text!r}')
    return texts, seconds


def run(options, outcome):
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        return outcome.mark_inconclusive(f'needs root, and {", ".join(missing) or "all tools are there"}. Remedy: apt-get install mmdebstrap')
    if not (PACKAGES / 'SHA256SUMS').exists():
        return outcome.mark_inconclusive(f'{PACKAGES} holds no packages. Remedy: ./run package')
    subprocess.run(['sha256sum', '--quiet', '--check', 'SHA256SUMS'], cwd=PACKAGES, check=True)
    texts, slowest = set(), 0.0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        for suite in options.suite or ('bookworm', 'trixie'):
            said, seconds = try_system(System(suite, Path(name), options.systems), outcome)
            texts, slowest = texts | said, max(slowest, seconds)
    different = len(texts) - 1
    outcome.hold('texts that differ between systems', (different, different, different), 0, at_least=False)
    outcome.hold("seconds from pip's start to the wheel's answer", (slowest, slowest, slowest), MOST_SECONDS, at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--suite', action='append', help='of Debian; by default bookworm (12) and trixie (13)')
    parser.add_argument('--systems', type=Path, help='a folder in which bare systems are kept')
    outcome = Outcome('portable')
    run(parser.parse_args(), outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
