#!/usr/bin/env python3
"""Drafts whose tokenizer is not the target's: they draft by text, and change none.

  OUTRIDER_BIN=build/release/bin tests/e2e/vocabulary_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import random
import shutil
import struct
import tempfile
import unittest
from pathlib import Path

from programs import DRAFT, FORGETFUL, TARGET, Edge, HeldServer, Server, edge, free_port
from runner import run_tests

PROMPT = (DRAFT.parents[1] / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
ANSWER = ('-p', PROMPT, '-n', '60', '-c', '512', '--json')
BY_TEXT = 'has another tokenizer than the target, so it drafts by text'
PLAIN = 3069  # tokens before the special ones


def tokenizer_of(folder):
    return json.loads((folder / 'tokenizer.json').read_text(encoding='utf-8'))


def write_tokenizer(folder, tokenizer):
    (folder / 'tokenizer.json').write_text(json.dumps(tokenizer), encoding='utf-8')


def move_rows(folder, places):
    """Token i's row of the embedding, which is the head too, becomes row places[i]."""
    file = folder / 'model.safetensors'
    content = bytearray(file.read_bytes())
    length = struct.unpack('<Q', content[:8])[0]
    tensor = json.loads(content[8:8 + length])['model.embed_tokens.weight']
    begin, row = 8 + length + tensor['data_offsets'][0], 2 * tensor['shape'][1]
    before = bytes(content)
    for old, new in enumerate(places):
        content[begin + new * row:begin + (new + 1) * row] = before[begin + old * row:begin + (old + 1) * row]
    file.write_bytes(content)


def renamed(folder, places, merges=None):
    """The same draft under other ids: word i becomes word places[i]; those without a merge leave."""
    shutil.copytree(DRAFT, folder)
    tokenizer = tokenizer_of(folder)
    model = tokenizer['model']
    left_out = {''.join(merge if isinstance(merge, list) else merge.split(' ')) for merge in model['merges'][merges:]} if merges else set()
    model['vocab'] = {word: places[id] for word, id in model['vocab'].items() if word not in left_out}
    model['merges'] = model['merges'][:merges]
    write_tokenizer(folder, tokenizer)
    move_rows(folder, places)
    return folder


def shuffled():
    places = list(range(PLAIN))
    random.Random(5).shuffle(places)
    return places


def without_a_special_token(folder):
    shutil.copytree(DRAFT, folder)
    tokenizer = tokenizer_of(folder)
    tokenizer['added_tokens'] = [token for token in tokenizer['added_tokens'] if token['content'] != '<|endoftext|>']
    write_tokenizer(folder, tokenizer)
    (folder / 'tokenizer_config.json').unlink()
    return folder


class Vocabularies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.shuffled = renamed(cls.folder / 'shuffled', shuffled())
        cls.shorter = renamed(cls.folder / 'shorter', shuffled(), merges=2000)
        cls.fewer = without_a_special_token(cls.folder / 'fewer')

    def run_here(self, draft, *flags, source='model'):
        answer = edge('run', '--offline', '--target', TARGET, '--model', draft, '--draft-source', source, *ANSWER, *flags)
        self.assertEqual(answer.code, 0, answer.err)
        return answer

    def test_the_same_draft_under_other_ids_guesses_as_well_and_the_text_is_the_targets(self):
        for flags in (('--temp', '0'), ('--temp', '0.8', '--seed', '7'), ('--temp', '1', '--seed', '3')):
            plain = self.run_here(DRAFT, '--strategy', 'ar', *flags)
            by_id = self.run_here(DRAFT, '--strategy', 'sd', *flags)
            by_text = self.run_here(self.shuffled, '--strategy', 'sd', *flags)
            self.assertEqual(by_id.json['ids'], plain.json['ids'])
            self.assertEqual(by_text.json['ids'], plain.json['ids'], by_text.err)
            self.assertIn(BY_TEXT, by_text.err)
            self.assertNotIn(BY_TEXT, by_id.err)
            accepted = [one.json['spec_decode_num_accepted_tokens'] for one in (by_id, by_text)]
            self.assertGreater(accepted[1], 0.8 * accepted[0], f'{flags}: {accepted}')

    def test_words_that_the_draft_cuts_are_put_together(self):
        plain = self.run_here(DRAFT, '--strategy', 'ar', '--temp', '0')
        for source, *flags in (('model', '--strategy', 'sd'), ('model', '--strategy', 'mirror'), ('model', '--tree', 'outrider'), ('both',)):
            by_text = self.run_here(self.shorter, '--temp', '0', *flags, source=source)
            self.assertEqual(by_text.json['ids'], plain.json['ids'], by_text.err)
            self.assertIn(BY_TEXT, by_text.err)
            self.assertGreater(by_text.json['spec_decode_num_accepted_tokens'], 5, flags)

    def test_ids_that_both_have_need_no_text(self):
        plain = self.run_here(DRAFT, '--strategy', 'sd', '--temp', '0')
        by_id = self.run_here(self.fewer, '--strategy', 'sd', '--temp', '0')
        self.assertEqual(by_id.json['ids'], plain.json['ids'])
        self.assertIn('so it drafts by ids', by_id.err)
        self.assertEqual(by_id.json['spec_decode_num_accepted_tokens'], plain.json['spec_decode_num_accepted_tokens'])

    def test_a_server_drafts_with_a_model_of_its_own_ids_only(self):
        with Server('--draft-model', self.fewer) as server:
            answer = edge('run', '--server', server.address, '--model', DRAFT, *ANSWER)
            self.assertEqual(answer.code, 0, answer.err)
        with self.assertRaises(RuntimeError) as refused:
            Server('--draft-model', self.shuffled)
        self.assertIn("Remedy: a draft that was trained with the target's tokenizer", str(refused.exception))

    def test_at_a_server_and_through_its_death_the_text_is_the_targets(self):
        plain = self.run_here(DRAFT, '--strategy', 'ar', '--temp', '0.8', '--seed', '9')
        flags = ('--tokenizer', TARGET, '--model', self.shuffled, *ANSWER, '--temp', '0.8', '--seed', '9')
        with Server(*FORGETFUL) as server:
            online = edge('run', '--server', server.address, *flags)
            self.assertEqual(online.code, 0, online.err)
            self.assertEqual(online.json['ids'], plain.json['ids'], online.err)
            self.assertGreater(online.json['spec_decode_num_accepted_tokens'], 5)
            unnamed = edge('run', '--server', server.address, '--model', self.shuffled, *ANSWER)
            self.assertEqual(unnamed.code, 1, unnamed.err)
            self.assertIn("name the target's tokenizer with --tokenizer", unnamed.err)
        port = free_port()
        with HeldServer(*FORGETFUL, port=port) as server:
            server.hold(online.json['prompt_tokens'] + 20)
            going = Edge('run', '--server', server.address, '--target', TARGET, *flags[2:])
            self.assertTrue(going.process.stdout.read(1), 'it says nothing')
            server.kill()
            answer = going.wait()
        self.assertEqual(answer.code, 0, answer.err)
        self.assertEqual(answer.json['ids'], plain.json['ids'], answer.err)

    def test_a_tokenizer_that_changes_text_is_refused_by_name(self):
        folder = renamed(self.folder / 'folding', shuffled())
        tokenizer = tokenizer_of(folder)
        tokenizer['normalizer'] = {'type': 'Lowercase'}
        write_tokenizer(folder, tokenizer)
        refused = edge('run', '--offline', '--target', TARGET, '--model', folder, '--draft-source', 'model', *ANSWER)
        self.assertEqual(refused.code, 1, refused.err)
        self.assertIn('the tokenizer of folding changes text', refused.err)
        self.assertIn('Remedy: a draft whose tokenizer keeps text as it is', refused.err)


if __name__ == '__main__':
    run_tests()
