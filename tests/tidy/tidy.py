#!/usr/bin/env python3
"""Holds the sources to the house rules: one line per violation, exit code 1 if there is any.

  tests/tidy/tidy.py [ROOT]

documents.py, includes.py, lengths.py, rooms.py and words.py hold the rules, targets.py reads the CMakeLists.txt files.
SPDX-License-Identifier: Apache-2.0
"""
import os
import sys

sys.dont_write_bytecode = True  # before the modules beside this one are compiled
import documents
import includes
import lengths
import rooms
import words
from tree import Tree


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), '../..')
    tree = Tree(root)
    checks = lengths.CHECKS + includes.CHECKS + rooms.CHECKS + words.CHECKS + documents.CHECKS
    violations = [violation for check in checks for violation in check(tree)]
    for path, line, problem in sorted(violations):
        print(f'{path}:{line}: {problem}')
    print(f'tidy: {len(tree.paths)} files, {len(violations)} violations')
    return 1 if violations else 0


if __name__ == '__main__':
    sys.exit(main())
