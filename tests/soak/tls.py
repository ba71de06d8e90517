#!/usr/bin/env python3
"""The findings of testssl.sh (a Debian package) about a server's TLS: no finding may be high or critical.

  tests/soak/tls.py

The server has a certificate as a private authority would issue it, for 90 days. Inconclusive (exit code 4)
without testssl.sh, or if it ended early.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from authority import Authority
from edges import Server
from outcome import Outcome

HIGH = ('HIGH', 'CRITICAL')
MIN_FINDINGS = 80  # of a complete run, including good ones


def run(outcome):
    program = shutil.which('testssl') or shutil.which('testssl.sh')
    if not program:
        return outcome.mark_inconclusive('testssl.sh is not installed. Remedy: apt-get install testssl.sh bsdmainutils dnsutils')
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        authority = Authority(folder)
        with Server(*authority.server_flags()) as server:
            subprocess.run([program, '--quiet', '--color', '0', '--warnings', 'off', '--add-ca', authority.ca, '--jsonfile',
                            folder / 'found.json', server.address], stdout=sys.stderr, check=False)
        file = folder / 'found.json'
        findings = json.loads(file.read_text(encoding='utf-8')) if file.exists() else []
    outcome.figures['findings'] = dict(collections.Counter(finding['severity'] for finding in findings))
    if len(findings) < MIN_FINDINGS:
        outcome.mark_inconclusive(f'testssl.sh ended with {len(findings)} findings; a complete run has at least {MIN_FINDINGS}')
    high = [finding for finding in findings if finding['severity'] in HIGH]
    for finding in high:
        print(f'{finding["severity"]}: {finding["id"]}: {finding["finding"]}', file=sys.stderr)
    outcome.hold('findings that are high or critical', (len(high), len(high), len(high)), 0, at_least=False)


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    outcome = Outcome('tls')
    run(outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
