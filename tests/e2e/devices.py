"""Disks and cgroups of a test's own, which can be made to fail. They need root.

SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import tempfile
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT, Answer, eventually

CGROUPS = Path('/sys/fs/cgroup')
V2 = (CGROUPS / 'cgroup.controllers').exists()


def call(*command):
    return subprocess.run([str(part) for part in command], check=True, text=True,
                          capture_output=True).stdout.strip()


def cannot(kind):
    """Why this machine has no device of that kind; None: it has one."""
    if os.geteuid() != 0:
        return f'{kind.__name__} needs root'
    try:
        with tempfile.TemporaryDirectory() as folder, kind.sample(Path(folder)):
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        return f'no {kind.__name__} here: {error}'


class LoopDisk:
    """A file system on a file: a disk that loses what the file loses."""

    def __init__(self, image, size):
        self.image, self.size = image, size
        self.path = image.with_suffix('.mounted')

    @classmethod
    def sample(cls, folder):
        return cls(folder / 'sample.img', 8 << 20)

    def __enter__(self):
        self.image.write_bytes(b'')
        os.truncate(self.image, self.size)
        call('mkfs.ext4', '-q', '-F', '-b', '4096', self.image)
        self.device = call('losetup', '-f', '--show', self.image)
        self.path.mkdir(exist_ok=True)
        try:
            call('mount', self.device, self.path)
        except subprocess.CalledProcessError:
            call('losetup', '-d', self.device)
            raise
        return self

    def mount_again(self):
        call('umount', self.path)
        call('mount', self.device, self.path)

    def lose_the_end(self):
        """Makes the second half unreadable."""
        os.truncate(self.image, self.size // 4)

    def __exit__(self, *_):
        call('umount', self.path)
        call('losetup', '-d', self.device)
        self.image.unlink()


class MountedTmpfs:
    """A small file system in memory."""

    def __init__(self, path, size, *options):
        self.path, self.options = path, ','.join((f'size={size}', *options))

    @classmethod
    def sample(cls, folder):
        return cls(folder / 'sample', 1 << 20)

    def __enter__(self):
        self.path.mkdir(exist_ok=True)
        call('mount', '-t', 'tmpfs', '-o', self.options, 'none', self.path)
        return self.path

    def __exit__(self, *_):
        call('umount', self.path)


class Cgroup:
    """A cgroup of the test's own, of either version. controller: 'memory' or 'io'."""

    def __init__(self, controller):
        self.controller = controller
        older = {'memory': 'memory', 'io': 'blkio'}[controller]
        self.path = (CGROUPS if V2 else CGROUPS / older) / f'outrider-test-{os.getpid()}'

    @classmethod
    def sample(cls, _):
        return cls('memory')

    def __enter__(self):
        if V2:
            (CGROUPS / 'cgroup.subtree_control').write_text(f'+{self.controller}')
        self.path.mkdir()
        return self

    def limit_memory(self, size):
        (self.path / ('memory.max' if V2 else 'memory.limit_in_bytes')).write_text(str(size))

    def limit_reads(self, device, bytes_per_second):
        status = os.stat(device).st_rdev
        name = f'{os.major(status)}:{os.minor(status)}'
        if V2:
            (self.path / 'io.max').write_text(f'{name} rbps={bytes_per_second}')
        else:
            (self.path / 'blkio.throttle.read_bps_device').write_text(f'{name} {bytes_per_second}')

    def take(self, process):
        (self.path / 'cgroup.procs').write_text(str(process))

    def run(self, *arguments):
        """An outrider-edge that is in the group from its first instruction on."""
        command = [str(BIN / 'outrider-edge'), *map(str, arguments)]
        done = subprocess.run(
            ['sh', '-c', 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(self.path), *command],
            env=CLEAN_ENVIRONMENT, text=True, capture_output=True, check=False)
        return Answer(done.returncode, done.stdout, done.stderr)

    def __exit__(self, *_):
        def removed():  # an ended process leaves its group after a moment
            self.path.rmdir()
            return True
        eventually(removed, f'{self.path} is in use', 5)
