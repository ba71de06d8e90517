#!/usr/bin/env python3
"""Names the tests that have become slow: those that take twice as long as tests/times.json says, on this machine's scale.

  tests/times.py release          after ./run test, which calls it; --write publishes these times

A machine's scale is the median over all tests of their time here by their published time, so a slow machine names nothing.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import statistics
import sys
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED = ROOT / 'tests/times.json'
LEAST_SECONDS = 5  # what takes less is noise


def measured(report):
    """Seconds by test, of those that ran, from ctest's JUnit report."""
    cases = xml.etree.ElementTree.parse(report).iter('testcase')
    return {case.get('name'): float(case.get('time')) for case in cases if case.get('status') == 'run'}


def slow_tests(now, published):
    """(name, seconds, seconds that were expected) of each test that takes more than twice as long as is expected here."""
    both = [name for name in now if published.get(name, 0) >= LEAST_SECONDS]
    if not both:
        return []
    scale = statistics.median(now[name] / published[name] for name in both)
    expected = {name: scale * max(published[name], LEAST_SECONDS) for name in now if name in published}
    return [(name, now[name], expected[name]) for name in sorted(expected) if now[name] > 2 * expected[name]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('preset')
    parser.add_argument('--write', action='store_true', help='publish these times')
    options = parser.parse_args()
    now = measured(ROOT / 'build' / options.preset / 'times.xml')
    published = json.loads(PUBLISHED.read_text(encoding='utf-8')) if PUBLISHED.exists() else {}
    for name, seconds, expected in slow_tests(now, published.get(options.preset, {})):
        print(f'{name} took {seconds:.0f} s; on this machine {expected:.0f} s were expected (tests/times.json)', file=sys.stderr)
    if options.write:
        published[options.preset] = dict(sorted((published.get(options.preset, {}) | {name: round(time, 1) for name, time in now.items()}).items()))
        PUBLISHED.write_text(json.dumps(published, indent=1) + '\n', encoding='utf-8')


if __name__ == '__main__':
    main()
