#!/usr/bin/env python3
"""The needs of both programs: the C and C++ libraries, in versions that Debian 12, Ubuntu 22.04 and JetPack 6 have.

  OUTRIDER_BIN=build/release/bin .venv-tests/bin/python3 tests/e2e/portable_test.py

SPDX-License-Identifier: Apache-2.0
"""
import re
import shutil
import subprocess
import unittest

from programs import BIN, ROOT
from runner import run_tests

PROGRAMS = (BIN / 'outrider-edge', BIN / 'outrider-server')
LIBRARIES = {'libc.so.6', 'libm.so.6', 'libstdc++.so.6', 'libgcc_s.so.1', 'ld-linux-x86-64.so.2', 'ld-linux-aarch64.so.1'}
# The versions of glibc 2.34 and GCC 12, as the packages' dependencies say (deploy/CMakeLists.txt).
NEWEST = {'GLIBC': (2, 34), 'GLIBCXX': (3, 4, 30), 'CXXABI': (1, 3, 13), 'GCC': (12, 0, 0)}


def readelf(flag, program):
    return subprocess.run(['readelf', '--wide', flag, program], stdout=subprocess.PIPE, text=True, check=True).stdout


def needed_libraries(program):
    return set(re.findall(r'\(NEEDED\).*\[(.*)\]', readelf('--dynamic', program)))


def needed_versions(program):
    """{prefix: {versions}} of the symbols that a program looks for: GLIBC_2.34 is ('GLIBC', (2, 34))."""
    text = readelf('--version-info', program)
    found = {}
    for prefix, version in re.findall(r'Name: ([A-Z]+)_([0-9.]+)', text[text.index("needs section '.gnu.version_r'"):]):
        found.setdefault(prefix, set()).add(tuple(map(int, version.split('.'))))
    return found


class Portable(unittest.TestCase):
    def test_the_c_and_cpp_libraries_are_all_that_is_loaded(self):
        for program in PROGRAMS:
            needed = needed_libraries(program)
            self.assertIn('libc.so.6', needed)
            self.assertEqual(needed - LIBRARIES, set(), program)

    def test_no_symbol_is_newer_than_what_the_packages_ask_for(self):
        for program in PROGRAMS:
            versions = needed_versions(program)
            self.assertIn('GLIBC', versions)
            self.assertIn('GLIBCXX', versions)
            self.assertEqual(set(versions) - set(NEWEST), set(), program)
            for prefix, of_symbols in versions.items():
                self.assertLessEqual(max(of_symbols), NEWEST[prefix], f'{program}: {prefix}')

    def test_the_packages_ask_for_what_holds_these_versions(self):
        text = (ROOT / 'deploy/CMakeLists.txt').read_text(encoding='utf-8')
        depends = re.search(r'CPACK_DEBIAN_PACKAGE_DEPENDS "(.*)"', text)[1].split(', ')
        self.assertEqual(depends, ['adduser', 'libc6 (>= 2.34)', 'libgcc-s1', 'libstdc++6 (>= 12)'])

    def test_what_a_program_of_debian_loads_is_seen(self):
        self.assertNotEqual(needed_libraries(shutil.which('protoc')) - LIBRARIES, set())


if __name__ == '__main__':
    run_tests()
