#!/usr/bin/env python3
"""Builds the images of both programs with buildah, on a Debian 12 made by mmdebstrap, and lets them answer the demo as
user 1000 without capabilities, on a read-only root, with models mounted read-only.

  tests/soak/images.py [--arch arm64] [--cuda] [--jobs 2] [--volume HOST:CONTAINER ..] [--systems FOLDER]

--arch arm64 on an x86-64 machine: compiled here, run under qemu-user, which has to be registered with the kernel
(binfmt_misc; Debian's qemu-user-static, binfmt-support and arch-test do it).
--cuda builds the images for GPUs: without one each has to say why it does not start.
--volume mounts while the images are built: a compiler's cache (/root/.cache/ccache), apt's or pip's configuration. Needs
root, and about 12 GB in TMPDIR. Inconclusive (exit code 4) if a tool is missing or nothing can be mounted.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from demo import answer_demo

from edges import ROOT
from outcome import Outcome

PARTS = ('server', 'edge')
MOST_MEGABYTES = 150  # of an image, without weights
SLIM_MEGABYTES = 75   # of Debian's own slim image, of which the base here is a larger variant
# Neither documentation nor downloaded packages stay, as in Debian's slim images; licences do.
SLIM = ('--dpkgopt=path-exclude=/usr/share/doc/*', '--dpkgopt=path-include=/usr/share/doc/*/copyright', '--dpkgopt=path-exclude=/usr/share/man/*', '--dpkgopt=path-exclude=/usr/share/locale/*')
CLEAN = '''DPkg::Post-Invoke {"rm -f /var/cache/apt/archives/*.deb";};
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
'''
ARCHITECTURES = {'x86_64': 'amd64', 'aarch64': 'arm64'}
HERE = ARCHITECTURES[os.uname().machine]
TOOLS = ('buildah', 'mmdebstrap', 'unshare', 'chroot')
ISSUER = 'ca-certificates'  # for apt over HTTPS
# A process in an image has no rights. setpriv is the image's own, because it removes a right that chroot needs.
CONFINED = ('setpriv --reuid={0[0]} --regid={0[1]} --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all env -i {1} {2}')
WRAPPER = '''#!/bin/sh
exec unshare --mount sh -c '
  mkdir -p {root}/models && mount --bind {root} {root} && mount -o remount,bind,ro {root} && mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev &&
  mount --bind {models} {root}/models && mount -o remount,bind,ro {root}/models && exec chroot {root} {confined} "$@"' sh "$@"
'''


class Buildah:
    """buildah with images and containers in its own folder."""

    def __init__(self, folder):
        self.store = ('buildah', '--root', folder / 'store', '--runroot', folder / 'run')

    def __call__(self, *words):
        done = subprocess.run([*map(str, (*self.store, *words))], stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    def build(self, tag, *words):
        self('build', '--isolation', 'chroot', '--format', 'docker', '--layers', '--tag', tag, *words)


def make_base(buildah, folder, arch, kept):
    """Adds Debian 12 for this architecture to the image `base`, which has one for each."""
    (folder / 'docker-clean').write_text(CLEAN, encoding='ascii')
    context, tar = folder / f'base-{arch}', (kept or folder) / f'base-{arch}.tar'
    context.mkdir()
    if not tar.exists():
        subprocess.run(['mmdebstrap', '--variant=minbase', f'--architectures={arch}', *SLIM, f'--include={ISSUER}',
                        f'--customize-hook=copy-in {folder}/docker-clean /etc/apt/apt.conf.d', 'bookworm', tar], check=True)
    shutil.copy(tar, context / 'base.tar')
    (context / 'Dockerfile').write_text('FROM scratch\nADD base.tar /\n', encoding='ascii')
    buildah('build', '--isolation', 'chroot', '--format', 'docker', '--platform', f'linux/{arch}', '--manifest', 'base', context)


def megabytes(root):
    return int(subprocess.run(['du', '-sm', root], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0])


def wrap(buildah, part, folder, models):
    """Makes a script that runs the image's program like a container. Its root, and findings about the image."""
    config = json.loads(buildah('inspect', '--type', 'image', part))['Docker']['config']
    findings = [f'{part}: {what}' for what, right in (
        ('its user is not 1000:1000', config.get('User') == '1000:1000'),
        ('its entry point is not the program', config.get('Entrypoint') == [f'/usr/bin/outrider-{part}']),
        ('it has no health check', bool(config.get('Healthcheck')))) if not right]
    root = buildah('mount', buildah('from', part))
    environment = ' '.join(map(shlex.quote, config['Env']))
    for name, entry in ((f'outrider-{part}', config['Entrypoint'][0]), (f'{part}-sh', '/bin/sh')):
        confined = CONFINED.format(config['User'].split(':'), environment, entry)
        script = folder / 'bin' / name
        script.write_text(WRAPPER.format(root=root, models=models, confined=confined), encoding='utf-8')
        script.chmod(0o755)
    return root, findings


def is_shut(shell):
    """Whether a process in the image has only a user's rights and can write nowhere."""
    done = subprocess.run([shell, '-c', 'id -u; grep CapBnd /proc/self/status; for at in / /usr /tmp /models; do touch $at/x && echo $at; done'],
                          capture_output=True, text=True, check=False)
    return done.stdout.split() == ['1000', 'CapBnd:', '0' * 16]


def asks_health(command):
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


def try_without_gpu(folder, outcome):
    for part, flags in (('server', ('--model=/models/demo-target',)), ('edge', ('run', '--offline', '--target=/models/demo-target', '-p', 'x'))):
        done = subprocess.run([folder / f'bin/outrider-{part}', *flags, '--device=cuda'], capture_output=True, text=True, check=False)
        print(done.stderr, file=sys.stderr)
        if done.returncode == 0 or 'GPU' not in done.stderr or 'Remedy' not in done.stderr:
            outcome.fail(f'{part}: without a GPU it ends with {done.returncode} and says: {done.stderr}')


def build_images(buildah, arguments, file, folder, outcome):
    base = megabytes(buildah('mount', buildah('from', *arguments[:2], 'localhost/base')))
    for part in PARTS:
        buildah.build(part, *arguments, '--target', part, '-f', ROOT / 'docker' / file, ROOT)
        root, findings = wrap(buildah, part, folder, ROOT / 'models')
        if not is_shut(folder / 'bin' / f'{part}-sh'):
            findings.append(f'{part}: its process may do more than a user')
        for finding in findings:
            outcome.fail(finding)
        size = SLIM_MEGABYTES + megabytes(root) - base
        outcome.hold(f"MB of the {part}'s image", (size, size, size), MOST_MEGABYTES, at_least=False)
    answer_demo(folder / 'bin', Path('/models'), outcome,
                lambda port: asks_health([folder / 'bin/server-sh', '-c', f'curl -sf http://127.0.0.1:{port}/health/live']))


def run(options, outcome):
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        return outcome.mark_inconclusive(f'needs root, and {", ".join(missing) or "all tools are there"}. Remedy: apt-get install buildah mmdebstrap')
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / 'bin').mkdir()
        buildah = Buildah(folder)
        for arch in sorted({HERE, options.arch}):
            make_base(buildah, folder, arch, options.systems)
        volumes = [word for volume in options.volume for word in ('--volume', volume)]
        # buildah 1.28 takes the image's platform for the building machine's unless it is told.
        arguments = ('--platform', f'linux/{options.arch}', '--build-arg', f'BUILDPLATFORM=linux/{HERE}', *volumes,
                     '--build-arg', 'BASE=localhost/base', '--build-arg', f'JOBS={options.jobs}')
        try:
            build_images(buildah, arguments, 'cuda.Dockerfile' if options.cuda else 'Dockerfile', folder, outcome)
            if options.cuda:
                try_without_gpu(folder, outcome)
        finally:
            buildah('umount', '--all')
            buildah('rm', '--all')
    wrong = len(outcome.failures)
    outcome.hold('faults of the images', (wrong, wrong, wrong), 0, at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--jobs', type=int, default=2, help='of the compiler')
    parser.add_argument('--arch', choices=ARCHITECTURES.values(), default=HERE, help="of the images; by default this machine's")
    parser.add_argument('--cuda', action='store_true', help='the images for GPUs')
    parser.add_argument('--systems', type=Path, help='a folder in which bare systems are kept')
    parser.add_argument('--volume', action='append', default=[], help='HOST:CONTAINER, mounted while images are built')
    outcome = Outcome('images')
    run(parser.parse_args(), outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
