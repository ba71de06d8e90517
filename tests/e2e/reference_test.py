#!/usr/bin/env python3
"""docs/http.md, docs/responses.md and docs/messages.md hold what /openapi.json says, which both programs serve alike.

  OUTRIDER_BIN=build/release/bin tests/e2e/reference_test.py
  OUTRIDER_WRITE=1 OUTRIDER_BIN=build/release/bin tests/e2e/reference_test.py     writes their tables anew

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import unittest
import urllib.request
from pathlib import Path

from programs import DRAFT, Edge, Server, free_port, wait_until_served
from runner import run_tests

PAGES = [Path(__file__).resolve().parents[2] / 'docs' / name for name in ('http.md', 'responses.md', 'messages.md')]
SECTION = re.compile(r'(<!-- made of /openapi\.json: (\S+) -->\n)(.*?)(<!-- end -->)', re.DOTALL)
IGNORED = 'Is ignored: it cannot change the text.'
IDLE = 'Is accepted with a value that asks for nothing, as here.'


def fetch(base, path='/openapi.json'):
    with urllib.request.urlopen(base + path, timeout=60) as answer:
        return json.load(answer)


def kind(schema):
    """Type and bounds of a field's value, in words."""
    if 'enum' in schema:
        return ', '.join(f'`{value}`' for value in schema['enum'])
    types = schema['type'] if isinstance(schema['type'], list) else [schema['type']]
    words = ' or '.join(types)
    least, most = schema.get('minimum'), schema.get('maximum')
    if least is not None:
        words += f' from {least:g}' if abs(least) < 2**53 else f' from -2^{(-least).bit_length() - 1}'
    if most is not None:
        words += f' to {most:g}' if most < 2**31 - 1 else f' to 2^{(most + 1).bit_length() - 1} - 1'
    if 'maxItems' in schema:
        words += f', up to {schema["maxItems"]}'
    return words


def fields_table(schema, known):
    """The fields; those that are known from another route by their names only, or, if they ask for nothing, together."""
    rows, same, idle, ignored = ['| field | value | meaning |', '|---|---|---|'], [], [], []
    for name, field in schema['properties'].items():
        if known.get(name) == field:
            if field['description'] not in (IGNORED, IDLE):
                same.append(f'`{name}`')
        elif field.get('description') == IGNORED:
            ignored.append(f'`{name}`')
        elif field.get('description') == IDLE:
            idle += [f'`{name}={json.dumps(value, separators=(",", ":"))}`' for value in field['enum']]
        else:
            rows.append(f'| `{name}` | {kind(field)} | {field["description"]} |')
    if same:
        rows.append('| others | as in chats | ' + ', '.join(same) + '; and what asks for nothing or is ignored there |')
    text = '\n'.join(rows) + '\n'
    if idle:
        text += '\nValues that ask for nothing are accepted: ' + ', '.join(idle) + '.\n'
    if ignored:
        text += '\nThese fields are ignored, as they cannot change the text: ' + ', '.join(ignored) + '.\n'
    return text


def gets_table(paths):
    rows = [f'| `{path}` | {operations["get"]["summary"]} |' for path, operations in paths.items() if 'get' in operations]
    return '\n'.join(['| route | |', '|---|---|', *rows]) + '\n'


def made(page, document):
    """The page with its tables made of the document."""
    def section(match):
        paths = document['paths']
        if match[2] == 'get':
            return match[1] + gets_table(paths) + match[4]
        def schema(path):
            return paths[path]['post']['requestBody']['content']['application/json']['schema']
        chat = '/v1/chat/completions'
        known = schema(chat)['properties'] if match[2] != chat else {}
        return match[1] + fields_table(schema(match[2]), known) + match[4]
    return SECTION.sub(section, page)


class Reference(unittest.TestCase):
    def test_the_pages_are_made_of_what_both_programs_serve(self):
        http, port = free_port(), free_port()
        with Server('--http-port', http) as server:
            document = fetch(f'http://127.0.0.1:{http}')
            edge = Edge('serve', '--model', DRAFT, '--server', server.address, '--port', port)
            wait_until_served(f'http://127.0.0.1:{port}')
            self.assertEqual(fetch(f'http://127.0.0.1:{port}'), document)
            edge.interrupt()
            edge.wait()
        texts = {page: page.read_text(encoding='utf-8') for page in PAGES}
        if os.environ.get('OUTRIDER_WRITE'):
            for page, text in texts.items():
                page.write_text(made(text, document), encoding='utf-8')
            self.skipTest('the pages were written anew')
        self.assertGreaterEqual(sum(len(SECTION.findall(text)) for text in texts.values()), 7)
        routes = [operations['post']['requestBody']['content']['application/json']['schema']['properties']
                  for path, operations in document['paths'].items() if path.startswith('/v1/') and 'post' in operations]
        idle = [{name for name, field in fields.items() if field['description'] in (IGNORED, IDLE)} for fields in routes]
        for fields in routes:
            self.assertLessEqual(idle[0], set(fields), 'what asks for nothing in chats does so everywhere')
        for text in texts.values():
            self.assertEqual(text, made(text, document), 'write it anew: OUTRIDER_WRITE=1 tests/e2e/reference_test.py')


if __name__ == '__main__':
    run_tests()
