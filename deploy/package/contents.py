#!/usr/bin/env python3
"""Says what a program was made from: a software bill of materials (SPDX 2.3) and the licences of all that is in it.

  deploy/package/contents.py --build build/release --program outrider-edge --version 0.1.0 --out FOLDER

Reads the build's own records: which archives the program is linked from, and which headers its sources included. Debian says
which package each of them is from; a source archive lies in .cache/NAME, with its licences, and CUDA in a folder with NVIDIA's. FOLDER gets sbom.spdx.json and licences/PACKAGE. The C and C++ libraries are not listed:
a program loads them, it does not contain them.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path('/var/lib/dpkg/info')  # which files each installed package holds
SOURCES = ROOT / '.cache'           # source archives, unpacked
CUDA = 'nvidia-cuda'
# Packages that a system has anyway. Templates of the C++ library and of the compiler are free of conditions (runtime library exception).
OF_THE_SYSTEM = re.compile(r'^(?:libc6-dev|libc-dev-bin|linux-libc-dev|libstdc\+\+-\d+-dev|libgcc-\d+-dev)(?:-\w+-cross)?$')


def lines_of(*command):
    return subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def files_in(build, program):
    """Absolute paths of the archives that the program is linked from, and of the headers that its objects included."""
    asked = subprocess.run(['ninja', '-C', build, '-t', 'inputs', f'bin/{program}'], capture_output=True, text=True, check=False)
    inputs = asked.stdout.splitlines()
    objects = [path for path in inputs if path.endswith(('.o', '.cubin'))]
    headers = {line.strip() for line in lines_of('ninja', '-C', build, '-t', 'deps', *objects) if line.startswith('    ')} if objects else set()
    if not headers:
        sys.exit(f'{build} does not say what {program} was made from. Remedy: build it there first, with ninja. {asked.stderr}')
    archives = {path for path in inputs if path.endswith('.a')}
    real = {os.path.realpath(path) for path in archives | headers if os.path.isabs(path)}
    return {path for path in real if not path.startswith(f'{ROOT}/build/')}


def on_this_machine(path, sysroot):
    """A file of another CPU's libraries lies in a folder of their own. This machine's packages hold the same under their names."""
    if not sysroot or not path.startswith(sysroot):
        return path
    path = path.removeprefix(sysroot.rstrip('/'))
    return re.sub(r'^/usr/(lib|include)/aarch64-linux-gnu/', rf'/usr/\1/{os.uname().machine}-linux-gnu/', path)


def packages_of(paths, cuda):
    """The Debian packages and source archives that hold these files, and CUDA, whose folder this is. What none holds has a licence
    that nobody has looked at: it is refused."""
    of_cuda = {path for path in paths if cuda and path.startswith(f'{cuda}/')}
    names = {Path(path).relative_to(SOURCES).parts[0] for path in paths if path.startswith(f'{SOURCES}/')} | ({CUDA} if of_cuda else set())
    left = {path for path in paths - of_cuda if not path.startswith(f'{ROOT}/')}
    for held in LISTS.glob('*.list'):  # dpkg-query --search takes minutes for thousands of files
        of_this = left.intersection(held.read_text(encoding='utf-8', errors='replace').splitlines())
        if of_this:
            names.add(held.stem.split(':')[0])
            left -= of_this
    if left:
        sys.exit(f'{", ".join(sorted(left))}: part of the program, and no Debian package holds it. '
                 'Remedy: link what packages.txt installs, or say in deploy/package/contents.py where its licence is')
    return sorted(name for name in names if not OF_THE_SYSTEM.match(name))


def licence_files(package, cuda):
    """Where the licences of all that a package holds lie. CUDA's wheels keep theirs beside its folder."""
    if package == CUDA:
        return [*cuda.glob('EULA*'), *cuda.glob('dist-info/nvidia_cuda_*/**/License*'), *cuda.parent.parent.glob('nvidia_cuda_*/**/License*')]
    if (SOURCES / package).is_dir():
        return sorted(path for path in (SOURCES / package).rglob('*') if re.match(r'(?i)(?:licen[cs]e|notice|copying)', path.name) and path.is_file())
    return [Path('/usr/share/doc', package, 'copyright')]


def licences_of(package, cuda):
    """The texts of the licences of all that a package holds, each once."""
    texts = {path.read_text(encoding='utf-8', errors='replace'): path for path in licence_files(package, cuda)}
    if not texts:
        sys.exit(f'{cuda if package == CUDA else SOURCES / package} has no licence. Remedy: unpack it with its LICENSE')
    if len(texts) == 1:
        return next(iter(texts))
    return ''.join(f'--- {path.parent.name}/{path.name}\n{text}\n' for text, path in texts.items())


def described(package, cuda):
    """The SPDX record of a package."""
    if package == CUDA or (SOURCES / package).is_dir():
        return {'SPDXID': f'SPDXRef-{package}', 'name': package, 'downloadLocation': 'NOASSERTION', 'filesAnalyzed': False,
                'licenseConcluded': 'NOASSERTION', 'licenseComments': f'licences/{package} has the texts'}
    source, version = lines_of('dpkg-query', '-W', '-f', '${source:Package}\n${source:Version}\n', package)
    names = sorted(set(re.findall(r'^License: *(\S.*)$', licences_of(package, cuda), re.M)))
    return {
        'SPDXID': f'SPDXRef-{package}', 'name': package, 'versionInfo': version, 'supplier': 'Organization: Debian',
        'downloadLocation': 'NOASSERTION', 'filesAnalyzed': False, 'licenseConcluded': 'NOASSERTION',
        'licenseComments': f'licences/{package} has the texts' + (f"; Debian's names of them: {', '.join(names)}" if names else ''),
        'externalRefs': [{'referenceCategory': 'PACKAGE-MANAGER', 'referenceType': 'purl',
                          'referenceLocator': f'pkg:deb/debian/{source}@{version.replace("+", "%2B").replace(":", "%3A")}?arch=source'}]}


def bill_of_materials(program, file, version, packages, cuda):
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    made = datetime.datetime.fromtimestamp(int(os.environ.get('SOURCE_DATE_EPOCH', file.stat().st_mtime)), datetime.timezone.utc)
    ours = {'SPDXID': f'SPDXRef-{program}', 'name': program, 'versionInfo': version, 'supplier': 'Organization: the authors of Outrider',
            'downloadLocation': 'NOASSERTION', 'filesAnalyzed': False, 'licenseConcluded': 'Apache-2.0', 'licenseDeclared': 'Apache-2.0',
            'primaryPackagePurpose': 'APPLICATION', 'checksums': [{'algorithm': 'SHA256', 'checksumValue': digest}]}
    return {
        'spdxVersion': 'SPDX-2.3', 'dataLicense': 'CC0-1.0', 'SPDXID': 'SPDXRef-DOCUMENT', 'name': f'{program} {version}',
        'documentNamespace': f'urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}',
        'creationInfo': {'created': made.strftime('%Y-%m-%dT%H:%M:%SZ'), 'creators': ['Tool: deploy/package/contents.py']},
        'packages': [ours, *(described(package, cuda) for package in packages)],
        'relationships': [
            {'spdxElementId': 'SPDXRef-DOCUMENT', 'relationshipType': 'DESCRIBES', 'relatedSpdxElement': ours['SPDXID']},
            *({'spdxElementId': ours['SPDXID'], 'relationshipType': 'CONTAINS', 'relatedSpdxElement': f'SPDXRef-{package}'}
              for package in packages)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=Path, required=True, help='folder of the build')
    parser.add_argument('--program', required=True)
    parser.add_argument('--file', type=Path, required=True, help='the program as it is packed, whose checksum the bill has')
    parser.add_argument('--version', required=True)
    parser.add_argument('--sysroot', default='', help="folder of another CPU's libraries")
    parser.add_argument('--cuda', default='', help="CUDA's folder")
    parser.add_argument('--out', type=Path, required=True)
    arguments = parser.parse_args()
    paths = {on_this_machine(path, arguments.sysroot) for path in files_in(arguments.build, arguments.program)}
    cuda = Path(arguments.cuda).resolve() if arguments.cuda else None
    packages = packages_of(paths, cuda)
    bill = bill_of_materials(arguments.program, arguments.file, arguments.version, packages, cuda)
    shutil.rmtree(arguments.out / 'licences', ignore_errors=True)
    (arguments.out / 'licences').mkdir(parents=True)
    for package in packages:
        (arguments.out / 'licences' / package).write_text(licences_of(package, cuda), encoding='utf-8')
    (arguments.out / 'sbom.spdx.json').write_text(json.dumps(bill, indent=1) + '\n', encoding='utf-8')


if __name__ == '__main__':
    main()
