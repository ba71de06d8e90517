#!/usr/bin/env python3
"""Records of answers, audited: of a target on the device, of a server with drafts, of both in turns, and over HTTP; and
each forgery of one is found.

  OUTRIDER_BIN=build/release/bin tests/e2e/audit_test.py

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import os
import stat
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from programs import (BIN, CLEAN_ENVIRONMENT, DRAFT, ROOT, TARGET, Edge, HeldServer, Server, edge, ending_with_us, free_port,
                      wait_until_served)
from runner import run_tests

PROMPT = (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
SAMPLED = ('--temp', '1.5', '--seed', '4', '-n', '60', '--ignore-eos')
ASKED = ('-p', PROMPT, *SAMPLED)
LOCAL = ('run', '--target', TARGET, '--strategy', 'ar', *ASKED)


def audit(file, *flags, target=TARGET):
    return subprocess.run(ending_with_us(BIN / 'outrider-edge', 'audit', file, '--target', target, *flags), text=True,
                          capture_output=True, timeout=120, check=False, env=CLEAN_ENVIRONMENT)


def new_key(path):
    made = subprocess.run([BIN / 'outrider-server', 'record-key', 'new', path], check=True, capture_output=True, text=True)
    return made.stdout.strip()


def chained_anew(lines):
    """Each line with the hash of the one before: what a forger without a key can do."""
    done = [lines[0]]
    for line in lines[1:]:
        stretch = json.loads(line)
        stretch['before'] = hashlib.sha256(done[-1].encode()).hexdigest()
        done.append(json.dumps(stretch, separators=(',', ':')))
    return done


class Audit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.root.name)
        cls.public = new_key(cls.folder / 'key')
        cls.signed = cls.folder / 'signed.jsonl'
        cls.plain = cls.folder / 'plain.jsonl'
        assert edge(*LOCAL, '--record', cls.plain).code == 0
        assert edge(*LOCAL, '--record', cls.signed, '--record-key', cls.folder / 'key').code == 0

    @classmethod
    def tearDownClass(cls):
        cls.root.cleanup()

    def assert_clean(self, file, *flags, answers=1):
        said = audit(file, *flags)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        self.assertIn(f'clean: {answers} answers, ', said.stdout)
        return said

    def assert_found(self, file, what, *flags, target=TARGET):
        said = audit(file, *flags, target=target)
        self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
        self.assertIn('NOT CLEAN', said.stdout)
        self.assertIn(what, said.stdout)

    def forged(self, source, change, rechain=True):
        """A copy of a record whose lines `change` has altered as objects."""
        lines = source.read_text(encoding='utf-8').splitlines()
        objects = [json.loads(line) for line in lines]
        change(objects)
        made = [lines[i] if i < len(lines) and one == json.loads(lines[i]) else
                json.dumps(one, separators=(',', ':')) for i, one in enumerate(objects)]
        # Its first field tells a record's first line.
        made[0] = made[0] if made[0].startswith('{"outrider_record":') else (
            json.dumps({'outrider_record': 1, **objects[0]}, separators=(',', ':')))
        file = self.folder / 'forged.jsonl'
        file.write_text('\n'.join(chained_anew(made) if rechain else made) + '\n', encoding='utf-8')
        return file

    def test_an_answer_of_this_device_is_clean_and_the_same_with_and_without_a_record(self):
        said = self.assert_clean(self.plain)
        self.assertIn('0 of 1 records are signed', said.stderr)
        self.assertEqual(stat.S_IMODE(os.stat(self.plain).st_mode), 0o600)
        first, *stretches = map(json.loads, self.plain.read_text(encoding='utf-8').splitlines())
        ids = [token for stretch in stretches for token in stretch['ids']]
        self.assertEqual(edge(*LOCAL, '--json').json['ids'], ids)
        self.assertEqual((first['seed'], stretches[0]['verifier'], stretches[0]['kv_dtype']), (4, 'device', 'f32'))

    def test_an_answer_of_a_server_with_drafts_is_clean(self):
        file = self.folder / 'server.jsonl'
        with Server() as server:
            for strategy in ('mirror', 'ar'):
                self.assertEqual(edge('run', '--server', server.address, '--model', DRAFT, '--strategy', strategy, *ASKED,
                                      '--presence-penalty', '0.4', '--record', file).code, 0)
        said = self.assert_clean(file, answers=2)
        self.assertNotIn('have no digest', said.stderr)
        stretches = [json.loads(line) for line in file.read_text(encoding='utf-8').splitlines() if '"stretch"' in line]
        self.assertTrue(all(one['verifier'].startswith('server ') and one['digests'] for one in stretches))

    def test_an_answer_that_fails_over_is_clean(self):
        file = self.folder / 'failover.jsonl'
        with HeldServer() as server:
            server.hold(80)
            running = Edge('run', '--server', server.address, '--target', TARGET, '--strategy', 'ar', '--tokenizer', DRAFT,
                           *ASKED, '--failover-after', '1', '--reconnect-timeout', '3', '--record', file)
            running.process.stdout.read(3)
            server.kill()
            self.assertEqual(running.wait().code, 0)
        stretches = [json.loads(line) for line in file.read_text(encoding='utf-8').splitlines()[1:]]
        self.assertEqual([one['verifier'].split()[0] for one in stretches], ['server', 'device'])
        self.assert_clean(file)

    def test_http_gives_the_record_to_who_asks_and_writes_no_file_for_it(self):
        kept = self.folder / 'kept.jsonl'

        def asked(base, **fields):
            request = urllib.request.Request(f'{base}/v1/chat/completions', json.dumps({
                'messages': [{'role': 'user', 'content': PROMPT}], 'temperature': 0.7, 'seed': 9, 'max_tokens': 40,
                **fields}).encode(), {'Content-Type': 'application/json'})
            return json.load(urllib.request.urlopen(request, timeout=60))

        with Server('--http-port', '0', '--record', kept, '--record-key', self.folder / 'key') as server:
            base = next(line.split()[1] for line in server.log if line.split()[:1] == ['openai'])
            self.assertNotIn('record', asked(base)['outrider'])
            answer = asked(base, outrider={'record': True})['outrider']
            self.assertEqual(answer['seed'], 9)
            self.assertNotIn('speculation', answer, 'figures are wanted apart')
            self.assertIn('speculation', asked(base, outrider=True)['outrider'])
            with self.assertRaises(urllib.error.HTTPError) as refused:
                asked(base, outrider={'records': True})
            self.assertIn('outrider.records', refused.exception.read().decode())
        ours = self.folder / 'ours.jsonl'
        ours.write_text('\n'.join(answer['record']) + '\n', encoding='utf-8')
        self.assert_clean(ours, '--signer', self.public)
        self.assert_clean(kept, '--signer', self.public, answers=3)

    def test_a_streamed_answer_of_an_edge_ends_with_its_record(self):
        port, base, file = free_port(), None, self.folder / 'stream.jsonl'
        served = Edge('serve', '--target', TARGET, '--draft-source', 'none', '--port', port, '-n', '30')
        try:
            base = f'http://127.0.0.1:{port}'
            wait_until_served(base)
            request = urllib.request.Request(f'{base}/v1/completions', json.dumps({
                'prompt': PROMPT, 'temperature': 0.7, 'stream': True, 'outrider': {'record': True, 'figures': True},
                'stop': ['.']}).encode(), {'Content-Type': 'application/json'})
            events = urllib.request.urlopen(request, timeout=60).read().decode().split('\n\n')
        finally:
            served.interrupt()
            served.wait()
        own = [json.loads(event[6:])['outrider'] for event in events if '"record"' in event]
        self.assertEqual(len(own), 1, 'the last event has it')
        self.assertIn('speculation', own[0])
        file.write_text('\n'.join(own[0]['record']) + '\n', encoding='utf-8')
        self.assertIn('"ending":"stop_string"', own[0]['record'][-1])
        self.assert_clean(file)

    def test_forgeries_without_a_signature_are_found_where_they_change_a_choice_or_a_digest(self):
        def token(objects):
            objects[1]['ids'][5] = (objects[1]['ids'][5] + 1) % 200

        def order(objects):
            ids = objects[1]['ids']
            at = next(i for i in range(4, 40) if ids[i] != ids[i + 1])
            ids[at], ids[at + 1] = ids[at + 1], ids[at]

        def digest(objects):
            objects[1]['digests'][0] = 'f' * 16

        for change, found in ((token, 'the target chooses token'), (order, 'position '), (digest, "the row's digest is"),
                              (lambda o: o[0].update(seed=5), 'the target chooses token'),
                              (lambda o: o[0].update(temperature=0.1), 'the target chooses token'),
                              (lambda o: o[0].update(template_hash='0' * 64), 'its chat template is'),
                              (lambda o: o[0]['prompt'].__setitem__(9, 3), 'position '),
                              (lambda o: o[1].update(model='demo-target@60'), 'its level is not'),
                              (lambda o: o[1].update(arithmetic_id='ab' * 16), 'with arithmetic id abab'),
                              (lambda o: o[1].update(ending=''), 'it has no end'),
                              (lambda o: o.pop(), 'it has no end')):
            self.assert_found(self.forged(self.plain, change), found)
        self.assert_found(self.forged(self.plain, token, rechain=False), 'the target chooses token')
        self.assert_found(self.forged(self.plain, lambda o: o[0].update(id='0' * 32), rechain=False), 'does not follow')

    def test_every_change_of_a_signed_record_is_found(self):
        signer = ('--signer', self.public)
        self.assert_clean(self.signed, *signer)
        for change in (lambda o: o[0].update(id='0' * 32), lambda o: o[1].update(verifier='server 9'),
                       lambda o: o[1]['ids'].pop(), lambda o: o[1].pop('signature')):
            self.assert_found(self.forged(self.signed, change), 'stretch 0 at position ', *signer)
        self.assert_found(self.plain, 'it is not signed', *signer)
        other = new_key(self.folder / 'other')
        self.assert_found(self.signed, f'it is signed by another key, {self.public}', '--signer', other)
        os.chmod(self.folder / 'other', 0o640)
        refused = edge(*LOCAL, '--record', self.folder / 'x.jsonl', '--record-key', self.folder / 'other')
        self.assertEqual(refused.code, 1)
        self.assertIn('chmod', refused.err)

    def test_cut_replayed_and_other_files(self):
        whole = self.plain.read_text(encoding='utf-8')
        cut = self.folder / 'cut.jsonl'
        cut.write_text(whole[:-30], encoding='utf-8')
        self.assert_found(cut, 'the file was cut')
        cut.write_text(whole * 2, encoding='utf-8')
        self.assert_found(cut, 'a replay')
        refused = audit(ROOT / 'README.md')
        self.assertEqual(refused.returncode, 2)
        self.assertIn('begins no record', refused.stderr)
        self.assert_found(self.plain, 'with arithmetic id', '--dtype', 'int8')
        self.assert_found(self.plain, 'with arithmetic id', target=DRAFT)

    def test_a_level_is_audited_with_its_table_alone(self):
        file, table = self.folder / 'level.jsonl', ('--elastic', f'{TARGET}/elastic.json')
        self.assertEqual(edge(*LOCAL, *table, '--level', '100,12:60', '--record', file).code, 0)
        models = [json.loads(line)['model'] for line in file.read_text(encoding='utf-8').splitlines()[1:]]
        self.assertEqual([name.split('@')[1] for name in models], ['100', '60'])
        self.assert_clean(file, *table)
        self.assert_found(file, 'no such level 100')

    def test_a_level_of_a_server_is_recorded_by_its_own_name_for_clients_and_edges(self):
        table = ('--elastic', f'{TARGET}/elastic.json')
        by_http, by_edge, web = self.folder / 'http.jsonl', self.folder / 'edge.jsonl', free_port()
        with Server('--http-port', web, '--record', by_http, *table) as server:
            body = json.dumps({'model': 'demo-target@60', 'prompt': PROMPT, 'max_tokens': 40, 'ignore_eos': True}).encode()
            request = urllib.request.Request(f'http://127.0.0.1:{web}/v1/completions', body, {'Content-Type': 'application/json'})
            self.assertEqual(urllib.request.urlopen(request, timeout=60).status, 200)
            self.assertEqual(edge('run', '--server', server.address, '--model', DRAFT, '--level', '60', *ASKED, '--record', by_edge).code, 0)
        for file in (by_http, by_edge):
            stretches = [json.loads(line) for line in file.read_text(encoding='utf-8').splitlines()[1:]]
            self.assertEqual({one['model'] for one in stretches}, {'demo-target@60'})
            self.assert_clean(file, *table)

    def test_hashes_stand_for_texts_that_the_auditor_brings(self):
        file = self.folder / 'hashed.jsonl'
        self.assertEqual(edge(*LOCAL, '--record', file, '--record-hashes-only').code, 0)
        self.assertNotIn('"ids":[', file.read_text(encoding='utf-8'))
        self.assert_clean(file)
        texts = self.folder / 'elsewhere'
        Path(f'{file}.texts').rename(texts)
        self.assertIn('texts', audit(file).stderr)
        self.assert_clean(file, '--texts', texts)

    def test_a_sample_says_what_a_forger_is_left(self):
        many = self.folder / 'many.jsonl'
        for seed in range(4):
            self.assertEqual(edge('run', '--target', TARGET, '--strategy', 'ar', '-p', PROMPT, '-n', '4', '--temp', '1',
                                  '--seed', str(seed), '--record', many).code, 0)
        said = self.assert_clean(many, '--sample', '0.25', '--seed', '7')
        self.assertIn('drawn: 1 of 4 answers by --seed 7; a forger escapes with chance 0.75 if 1 is forged', said.stdout)

    def test_a_full_disk_ends_the_record_and_not_the_answer(self):
        answered = edge(*LOCAL, '--record', '/dev/full', '--json')
        self.assertEqual(answered.code, 0)
        self.assertTrue(answered.json['ids'])
        self.assertIn('record: OFF because /dev/full: No space left', answered.err)


if __name__ == '__main__':
    run_tests()
