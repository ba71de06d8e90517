#!/usr/bin/env python3
"""Plants one violation of each rule in a small tree and sees whether tidy.py finds just that.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../bench/results'))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../bench/paper'))
import page as results_page  # found by the lines above
import papers as papers_page

TIDY = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'tidy.py')
SPDX = '// SPDX-License-Identifier: Apache-2.0\n'
CLEAN = {
    'CMakeLists.txt': 'outrider_add_folders(common/base common/engine/model edge_client cloud_server)\n',
    'README.md': '| folder | holds |\n|---|---|\n| `common/` | x |\n| `edge_client/` | x |\n'
                 '| `cloud_server/` | x |\n',
    'common/README.md': '| folder | holds | includes |\n|---|---|---|\n| `base` | x | - |\n'
                        '| `engine` | x | - |\n| `engine/model` | x | base |\n',
    'common/base/CMakeLists.txt': 'outrider_library(base SOURCES a.cc)\n',
    'common/base/a.cc': SPDX + 'int f() {\n  return 1;\n}\n',
    'common/base/a.h': SPDX,
    'common/engine/model/CMakeLists.txt': 'outrider_library(model DEPS base)\n',
    'common/engine/model/m.h': SPDX + '#include "common/base/a.h"\n',
    'common/engine/model/n.h': SPDX + '#include "common/base/a.h"\n',
    'edge_client/CMakeLists.txt': 'outrider_library(edge DEPS model)\n',
    'edge_client/e.h': SPDX + '#include "common/engine/model/m.h"\n',
    'edge_client/f.h': SPDX + '#include "common/engine/model/m.h"\n',
    'cloud_server/CMakeLists.txt': 'outrider_library(server)\n',
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
        self.assert_finds('a.cc:1: 501 lines', {a: SPDX + '\n' * 500})
        self.assert_finds('a.js:1: 501 lines', {'common/base/a.js': SPDX + '\n' * 500})
        for head in ('void f() ', 'A::A(int x)\n    : x_{x}, y_(1) ', 'auto f() -> int ', 'TEST(A, B) ',
                     'namespace n {\nstruct S {\nvoid f() const override {}\n};\n}\nbool g(S s = {}) noexcept '):
            self.assert_finds('function of 71 lines' if '\n    :' not in head else 'function of 72 lines',
                              {a: SPDX + head + body(71)})
        self.assertEqual(self.findings({a: SPDX + 'void f() ' + body(70)}), [])
        braces = 'const char* k = "{{{";  // {{{\nchar c = \'{\';\nauto r = R"(}}} {)";\n#define B {\n'
        self.assertEqual(self.findings({a: SPDX + braces + ('void f() ' + body(30)) * 5}), [])

    def test_words_and_licence(self):
        a = 'common/base/a.cc'
        self.assert_finds('a.cc:1: no SPDX', {a: 'int x;\n'})
        self.assert_finds('a.js:1: no SPDX', {'common/base/a.js': 'let x;\n'})
        self.assert_finds('a.cc:2: open end', {a: SPDX + '// TO' + 'DO: later\n'})
        self.assertEqual(self.findings({a: SPDX + '// TO' + 'DO(#12): later\n'}), [])
        self.assert_finds("path of somebody's machine", {'run.sh': 'cd /ho' + 'me/me/x\n'})

    def test_classes_with_all_their_files(self):
        part = ''.join(f'void A::f{i}() {{\n  x();\n}}\n' for i in range(100))
        files = {'common/base/a.h': SPDX + 'class A {\n  void f();\n};\n',
                 'common/base/b.cc': SPDX + '\n// A comment.\n#include "common/base/a.h"\n' + part,
                 'common/base/a.cc': SPDX + part,
                 'common/base/CMakeLists.txt': 'outrider_library(base SOURCES a.cc b.cc)\n'}
        self.assert_finds('a.h:1: class of 603 lines of code with all its files', files)
        self.assertEqual(self.findings({**files, 'common/base/b.cc': SPDX + part.replace('A::', 'B::')}), [])

    def test_modules_of_a_folder(self):
        headers = {f'common/base/h{i}.h': SPDX for i in range(29)}
        self.assertEqual(self.findings(headers), [])
        self.assert_finds('common/base:1: 31 modules', {**headers, 'common/base/more.h': SPDX})

    def test_small_modules_with_one_user(self):
        small = {'common/base/b.h': SPDX + 'int b();\n', 'common/base/a.cc': SPDX + '#include "common/base/b.h"\n'}
        self.assert_finds('b.h:1: 1 lines of code that only common/base/a uses', small)
        self.assertEqual(self.findings({**small, 'common/base/b.h': SPDX + 'int b();\n' * 40}), [])
        self.assertEqual(self.findings({**small, 'common/base/c.h': SPDX + '#include "common/base/b.h"\n'}), [])

    def test_types_have_names_of_their_own(self):
        def header(space, text):
            return SPDX + f'\nnamespace {space} {{\n{text}\n}}\n' + 'int b();\n' * 40
        files = {'common/base/b.h': header('outrider', 'struct Setup {\n  int a;\n};')}
        again = header('outrider', 'class Setup final : public Base {\n};')
        self.assert_finds('c.h:4: common/base/b.h defines outrider::Setup too', {**files, 'common/base/c.h': again})
        other = header('outrider::gpu', 'class Setup final {\n};\nclass Forward;')
        self.assertEqual(self.findings({**files, 'common/base/c.h': other}), [])

    def test_every_source_is_built(self):
        self.assert_finds('b.cc:1: no CMakeLists.txt', {'common/base/b.cc': SPDX})
        self.assert_finds('aa.cc:1: no CMakeLists.txt', {'common/base/aa.cc': SPDX})
        listed = 'set(more b.cc)\nif(X)\n  list(APPEND more c.cc)\nendif()\noutrider_library(base SOURCES a.cc ${more})\n'
        self.assertEqual(self.findings({'common/base/b.cc': SPDX, 'common/base/c.cc': SPDX,
                                        'common/base/CMakeLists.txt': listed}), [])

    def test_tables_match_the_disk_and_the_lists(self):
        self.assert_finds('lacks `bench`', {'bench/x.h': SPDX})
        self.assert_finds('lacks `text`', {'common/text/x.h': SPDX})
        self.assert_finds('lists `docs`', {'README.md': CLEAN['README.md'] + '| `docs/` | x |\n'})
        table = CLEAN['common/README.md']
        self.assert_finds('`engine/model` includes base, by', {'common/README.md': table.replace('| base |', '| - |')})
        self.assert_finds('`base` includes -, by', {'common/README.md': table.replace('| - |', '| engine/model |', 1)})

    def test_includes_need_the_list(self):
        self.assert_finds('may not include common/engine/model/m.h: DEPS or PRIVATE_DEPS of base lack model',
                          {'common/base/a.cc': SPDX + '#include "common/engine/model/m.h"\n'})
        self.assert_finds('may not include common/base/a.h: DEPS or PRIVATE_DEPS of edge lack base',
                          {'edge_client/e.h': CLEAN['edge_client/e.h'] + '#include "common/base/a.h"\n'})
        self.assert_finds('may not include fmt/format.h: base does not list outrider_fmt',
                          {'common/base/a.cc': SPDX + '#include <fmt/format.h>\n'})
        for list_name, findings in (('PRIVATE_DEPS', 1), ('DEPS', 0)):
            lines = self.findings({'common/engine/model/CMakeLists.txt': f'outrider_library(model {list_name} base)\n'})
            self.assertEqual(len(lines), findings, lines)
        self.assert_finds('base lists model, which CMake reads later',
                          {'common/base/CMakeLists.txt': 'outrider_library(base SOURCES a.cc DEPS model)\n',
                           'common/base/a.cc': SPDX + '#include "common/engine/model/m.h"\n',
                           'common/README.md': CLEAN['common/README.md'].replace('| - |', '| engine/model |', 1)})
        self.assert_finds('edge lists base and includes nothing of it',
                          {'edge_client/CMakeLists.txt': 'outrider_library(edge DEPS base model)\n'})

    def test_files_close_no_circle(self):
        self.assert_finds('a.h:1: includes itself by way of common/base/b.h', {
            'common/base/a.h': SPDX + '#include "common/base/b.h"\n',
            'common/base/c.h': SPDX + '#include "common/base/b.h"\n',
            'common/base/b.h': SPDX + '#include "common/base/a.h"\n'})

    def test_tests_include_what_their_targets_offer(self):
        for listed, findings in (('edge', 0), ('server', 1)):
            lines = self.findings({
                'CMakeLists.txt': CLEAN['CMakeLists.txt'] + 'outrider_add_folders(tests)\n',
                'README.md': CLEAN['README.md'] + '| `tests/` | x |\n',
                'tests/CMakeLists.txt': f'outrider_test(t SOURCES t_test.cc DEPS {listed})\n',
                'tests/helper.h': SPDX,
                'tests/t_test.cc': SPDX + '#include "common/base/a.h"\n#include "tests/helper.h"\n'})
            self.assertEqual(len(lines), findings, lines)

    def test_edge_and_server_stay_apart(self):
        both = 'outrider_library({} DEPS {})\n'.format
        lines = self.findings({'cloud_server/c.h': SPDX + '#include "edge_client/e.h"\n',
                               'edge_client/f.h': CLEAN['edge_client/f.h'] + '#include "edge_client/e.h"\n',
                               'cloud_server/CMakeLists.txt': both('server', 'edge')})
        self.assertEqual(len(lines), 1, lines)
        self.assertIn('may not include edge_client/e.h', lines[0])

    def test_ideas_stand_once(self):
        self.assert_finds('7.76: the times of the paper\'s table 9: only in', {'common/base/a.cc': SPDX + 'double kStep = 7.76;\n'})
        self.assertEqual(self.findings({'common/base/a.cc': SPDX + '// A step takes 7.76 ms.\n'}), [])

    def test_words_of_our_own(self):
        a = 'common/base/a.cc'
        for text in ('// It fl' + 'ies.', 'int was_fly' + 'ing;', 'int in_va' + 'in;', 'int kMo' + 'st = 1, kMo' + 'stRows = 2;',
                     '// Like' + 'wise.', '// Who' + 'ever comes.', 'void comp' + 'lain();', 'struct Sim' + 'World;',
                     'int Pla' + 'ce;', 'void te' + 'll_peer();', 'class ReportLa' + 'ne;', 'int exit_wor' + 'th;',
                     '// DESI' + 'GN L4.', '// A record for the bo' + 'oks.', 'void ask_' + 'for();', 'float turn' + 'ed_[4];',
                     '// In the first level of ca' + 'che.', '// It is sa' + 'id that it is so.', 'struct Learnt' + 'Pair {};'):
            with self.subTest(text):
                lines = self.findings({a: SPDX + text + '\n'})
                self.assertEqual(len(lines), 1, lines)
                self.assertIn('a.cc:2: ', lines[0])
        self.assertEqual(self.findings({a: SPDX + '// They tell the place of the world.\nint in_flight;\n'}), [])

    def test_comments_are_whole_sentences(self):
        a = 'common/base/a.cc'
        self.assert_finds('no whole sentence', {a: SPDX + 'int x;  // .. and more\n'})
        self.assert_finds('no whole sentence', {a: SPDX + 'int x;  // one thing ..\n'})
        self.assert_finds('no whole sentence', {'run.sh': '# .. and so on\n'})

    def test_comments_that_begin_with_no_noun(self):
        a = 'common/base/a.cc'
        for comment in ('// Of the last pass.', '// What a pass took.', 'int y;  // As ints are.', '// One.\n//\n// Who waits.',
                        '// As HAProxy does.', 'int y;  // One.\n// Of the next.'):
            self.assert_finds('neither with a sentence nor with a noun', {a: SPDX + '\n' + comment + '\nint x;\n'})
        self.assert_finds('neither with a sentence', {'run.py': '# SPDX-License-Identifier: Apache-2.0\n\n# Of all.\n'})
        self.assert_finds('neither with a sentence', {'run.py': '"""What is\n\nSPDX-License-Identifier: Apache-2.0"""\n'})
        self.assertEqual(self.findings({a: SPDX + '// It has one. What is\n// What it seems.\nint x;\n'}), [])
        self.assertEqual(self.findings({a: SPDX + 'int x;  // 1 .. n, {"a": ..}\n// c[0] + .. by Horner\n'}), [])

    def test_torch_and_grpc_do_not_meet(self):
        self.assert_finds('sees ATen/Tensor.h and', {
            'common/base/CMakeLists.txt': 'outrider_library(base SOURCES a.cc DEPS gRPC::grpc++ outrider::torch)\n',
            'common/base/a.h': SPDX + '#include <grpcpp/grpcpp.h>\n',
            'common/base/a.cc': SPDX + '#include <ATen/Tensor.h>\n#include "common/base/a.h"\n'})

    def with_docs(self, changes):
        return {'README.md': CLEAN['README.md'] + '| `docs/` | x |\n', **changes}

    def test_documents_are_short(self):
        def page(count):
            return 'word. ' * count

        self.assert_finds('docs/a.md:1: 1801 words', self.with_docs({'docs/a.md': page(1801)}))
        self.assert_finds('README.md:1: 901 words', {'README.md': CLEAN['README.md'] + '\n' + page(
            901 - len(CLEAN['README.md'].split()))})
        self.assertEqual(self.findings(self.with_docs({'docs/a.md': page(1800)})), [])

    def test_sentences_of_documents_are_short(self):
        long = 'word ' * 45 + 'last.'
        self.assert_finds('docs/a.md:3: a sentence of 46 words', self.with_docs({'docs/a.md': '# A\n\n' + long + '\n'}))
        self.assert_finds('docs/a.md:4: a sentence of 47 words', self.with_docs({'docs/a.md': 'Some.\nMore.\n\n- ' + long + '\n'}))
        fine = f'| {long} |\n\n```\n{long}\n```\n' + 'word ' * 44 + 'word.\nAnd so on. ' + '\n- word' * 50 + '\n'
        self.assertEqual(self.findings(self.with_docs({'docs/a.md': fine})), [])

    def test_words_of_documents(self):
        for text in ('All bu' + 't for one.', 'Nothing is sh' + 'own.', 'It hands ba' + 'ck.', 'Demanded' + 'Walk', 'the bra' + 'in'):
            with self.subTest(text):
                self.assert_finds('docs/a.md:1: says', self.with_docs({'docs/a.md': text + '\n'}))

    def test_links_and_files_of_documents_are_there(self):
        for text, finding in (('[x](b.md)', 'links to b.md'), ('[x](a.md#no)', 'links to a.md#no'), ('[x](#no)', 'links to #no'),
                              ('[x](../common/none)', 'links to ../common/none'), ('`common/base/b.h`', 'names common/base/b.h'),
                              ('`base/a.h`', 'names base/a.h'), ('`common/*/b.h`', 'names common/*/b.h')):
            with self.subTest(text):
                self.assert_finds('docs/a.md:3: ' + finding, self.with_docs({'docs/a.md': '# A `b` c\n\n' + text + '\n'}))
        fine = ('[x](a.md#a-b-c) [y](https://x.org/none.md) [z](../common/base/) `common/base/a.h` `common/*/a.h` `common/engine/model/`\n'
                '`build/release/bin` `lte/starlink`\n```\n# no heading\n[x](none.md) `common/none.h`\n```\n')
        self.assertEqual(self.findings(self.with_docs({'docs/a.md': '# A `b` c\n\n' + fine})), [])
        self.assert_finds('common/README.md:6: names base/b.h',
                          {'common/README.md': CLEAN['common/README.md'] + '`base/b.h` `base/a.h`\n'})

    def test_what_there_is_to_be_compared_with_is_the_laboratorys(self):
        for text in ('--pace-step-ms', '--client-queue', 'class SpecEdgeStrategy {};', 'int ssd;', 'const char* x = "top-n";'):
            with self.subTest(text):
                self.assert_finds('edge_client/e.h:3: ', {'edge_client/e.h': CLEAN['edge_client/e.h'] + text + '\n'})
                self.assertEqual(self.findings({'common/base/a.h': SPDX + text + '\n'}), [])
        self.assert_finds('--exit-score: belongs to bench/lab', {'cloud_server/c.h': SPDX + '// --exit-score\n'})

    def test_comments_name_pages_that_are_there(self):
        header = {'common/base/a.h': SPDX + '// Why: docs/a.md.\n'}
        self.assert_finds('a.h:2: names docs/a.md', header)
        self.assertEqual(self.findings(self.with_docs({**header, 'docs/a.md': 'x\n'})), [])

    def test_results_are_what_their_files_say(self):
        headline = {'text': 'speed', 'table': 't', 'row': 'all', 'column': 'f', 'bar': '>= 1.1'}
        result = {'section': 'Models', 'title': 'x', 'conditions': 'x', 'machine': 'x', 'date': 'x', 'commands': ['x'],
                  'tables': [{'name': 't', 'columns': ['what', 'f'], 'rows': [['all', {'value': 1.2, 'low': 1.15, 'high': 1.3}]]}],
                  'headlines': [headline]}
        with tempfile.TemporaryDirectory() as folder:
            for name, bar in (('met', '>= 1.1'), ('missed', '>= 1.16')):
                with open(os.path.join(folder, name + '.json'), 'w', encoding='utf-8') as file:
                    json.dump({**result, 'headlines': [{**headline, 'bar': bar}]}, file)
            page = results_page.page(folder)
        self.assertIn('(../bench/results/met.json) | 1.2 [1.15, 1.3] | ≥ 1.1 |', page)
        self.assertIn('(../bench/results/missed.json) | **1.2 [1.15, 1.3]** | ≥ 1.16 |', page)

        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, 'met.json'), 'w', encoding='utf-8') as file:
                json.dump(result, file)
            page = results_page.page(folder)
        files = self.with_docs({'bench/results/met.json': json.dumps(result), 'docs/results.md': page, 'bench/benchmarks.md': 'x\n',
                                'bench/results/page.py': SPDX.replace('//', '#'),
                                'docs/a.md': 'It is 1.2 [1.15, 1.3] times as fast.\n'})
        files['README.md'] += '| `bench/` | x |\n'
        files['bench/README.md'] = '| folder | holds |\n|---|---|\n| `results` | x |\n'
        self.assertEqual(self.findings(files), [])
        self.assert_finds('docs/results.md:1: not what', {**files, 'docs/results.md': page.replace('1.2', '1.4')})
        self.assert_finds('a.md:1: 1.4 [1.15, 1.3] is in no file', {**files, 'docs/a.md': 'It is 1.4 [1.15, 1.3] times as fast.\n'})
        unknown = {**result, 'headlines': [{**headline, 'row': 'none'}]}
        self.assert_finds('a headline names t / none / f', {**files, 'bench/results/met.json': json.dumps(unknown)})

    def test_the_papers_page_is_what_its_lists_say(self):
        claim = {'what': 'speed', 'printed': 2, 'formula': 1.9, 'ours': None, 'verdict': 'agrees', 'reason': ''}
        papers = [{'paper': 'X', 'about': 'It is.', 'figures': [
            {'figure': 'table 1', 'states': 'speed', 'command': 'x-table1', 'claim': 'speed'},
            {'figure': 'table 2', 'states': 'cost', 'command': 'x-table2', 'claim': 'cost'},
            {'figure': 'table 3', 'states': 'power', 'why': 'not built yet'}]}]
        verdicts = {'x-table1': [claim, {**claim, 'what': 'hours', 'verdict': 'quoted'}]}
        with tempfile.TemporaryDirectory() as folder:
            def write(name, value):
                with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                    json.dump(value, file)
            write('papers.json', papers)
            write('verdicts.json', verdicts)
            page = papers_page.page(folder)
            papers[0]['figures'][0]['claim'] = 'cost'
            write('papers.json', papers)
            with self.assertRaisesRegex(papers_page.BadList, "x-table1 has no claim 'cost'"):
                papers_page.page(folder)
        self.assertIn('**2 of 3 rows have a command**, 2 commands in all: X 2 of 3.', page)
        self.assertIn('| table 1 | speed | 2 | 1.9 (formula) | agrees; 1 of 1 agree | `x-table1` |', page)
        self.assertIn('| table 2 | cost | | | not recorded | `x-table2` |', page)
        self.assertIn('| table 3 | power | | | not built yet | |', page)


if __name__ == '__main__':
    unittest.main()
