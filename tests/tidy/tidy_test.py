#!/usr/bin/env python3
"""Plants one violation of each rule in a small tree and sees whether tidy.py finds just that.

SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import sys
import tempfile
import unittest

TIDY = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'tidy.py')
SPDX = '// SPDX-License-Identifier: Apache-2.0\n'
CLEAN = {
    'README.md': '| folder | holds |\n|---|---|\n| `common/` | x |\n| `edge_client/` | x |\n'
                 '| `cloud_server/` | x |\n',
    'common/README.md': '| folder | holds | may include |\n|---|---|---|\n| `base` | x | nothing of ours |\n'
                        '| `model` | x | base |\n',
    'common/base/CMakeLists.txt': 'outrider_library(base SOURCES a.cc)\n',
    'common/base/a.cc': SPDX + 'int f() {\n  return 1;\n}\n',
    'common/base/a.h': SPDX,
    'common/model/m.h': SPDX + '#include "common/base/a.h"\n',
    'edge_client/e.h': SPDX + '#include "common/model/m.h"\n',
    'cloud_server/c.h': SPDX,
}


def body(lines):
    return '{\n' + '  x();\n' * (lines - 2) + '}\n'


class TidyTest(unittest.TestCase):
    def findings(self, changes):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**CLEAN, **changes}.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), 'w', encoding='utf-8') as file:
                    file.write(text)
            subprocess.run(['git', 'init', '-q', root], check=True)
            result = subprocess.run([sys.executable, TIDY, root], check=False, capture_output=True, text=True)
        lines = result.stdout.splitlines()[:-1]
        self.assertEqual(result.returncode, 1 if lines else 0, result.stderr)
        return lines

    def assert_finds(self, text, changes):
        lines = self.findings(changes)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(text, lines[0])

    def test_a_clean_tree_has_no_findings(self):
        self.assertEqual(self.findings({}), [])

    def test_lengths(self):
        a = 'common/base/a.cc'
        self.assert_finds('a.cc:1: 401 lines', {a: SPDX + '\n' * 400})
        for head in ('void f() ', 'A::A(int x)\n    : x_{x}, y_(1) ', 'auto f() -> int ', 'TEST(A, B) ',
                     'namespace n {\nstruct S {\nvoid f() const override {}\n};\n}\nbool g(S s = {}) noexcept '):
            self.assert_finds('function of 71 lines' if '\n    :' not in head else 'function of 72 lines',
                              {a: SPDX + head + body(71)})
        self.assertEqual(self.findings({a: SPDX + 'void f() ' + body(70)}), [])
        braces = 'const char* k = "{{{";  // {{{\nchar c = \'{\';\nauto r = R"(}}} {)";\n#define B {\n'
        self.assertEqual(self.findings({a: SPDX + braces + ('void f() ' + body(30)) * 5}), [])
        self.assert_finds('class of 151 lines', {'common/base/a.h': SPDX + 'class A ' + body(151)})

    def test_words_and_licence(self):
        a = 'common/base/a.cc'
        self.assert_finds('a.cc:1: no SPDX', {a: 'int x;\n'})
        self.assert_finds('a.cc:2: open end', {a: SPDX + '// TO' + 'DO: later\n'})
        self.assertEqual(self.findings({a: SPDX + '// TO' + 'DO(#12): later\n'}), [])
        self.assert_finds("path of somebody's machine", {'run.sh': 'cd /ho' + 'me/me/x\n'})

    def test_every_source_is_built(self):
        self.assert_finds('b.cc:1: no CMakeLists.txt', {'common/base/b.cc': SPDX})
        self.assert_finds('aa.cc:1: no CMakeLists.txt', {'common/base/aa.cc': SPDX})

    def test_tables_match_the_disk(self):
        self.assert_finds('lacks `bench`', {'bench/x.h': SPDX})
        self.assert_finds('lacks `text`', {'common/text/x.h': SPDX})
        self.assert_finds('lists `docs`', {'README.md': CLEAN['README.md'] + '| `docs/` | x |\n'})

    def test_includes_go_downwards(self):
        self.assert_finds('may not include common/model/m.h',
                          {'common/base/a.h': SPDX + '#include "common/model/m.h"\n'})
        self.assert_finds('may not include cloud_server/c.h',
                          {'edge_client/e.h': SPDX + '#include "cloud_server/c.h"\n'})
        self.assert_finds('may not include edge_client/e.h',
                          {'cloud_server/c.h': SPDX + '#include "edge_client/e.h"\n'})
        self.assert_finds('may not include edge_client/e.h',
                          {'common/base/a.h': SPDX + '#include "edge_client/e.h"\n'})

    def test_torch_and_grpc_do_not_meet(self):
        self.assert_finds('sees ATen/Tensor.h and', {
            'common/base/a.h': SPDX + '#include <grpcpp/grpcpp.h>\n',
            'common/base/a.cc': SPDX + '#include <ATen/Tensor.h>\n#include "common/base/a.h"\n'})


if __name__ == '__main__':
    unittest.main()
