#!/usr/bin/env python3
"""Both programs together: the demo pair, real processes, wrong input.

  OUTRIDER_BIN=build/release/bin tests/e2e/edge_test.py

SPDX-License-Identifier: Apache-2.0
"""
import fcntl
import json
import os
import pty
import re
import shutil
import socket
import struct
import tempfile
import termios
import unittest
from pathlib import Path

from programs import DRAFT, FORGETFUL, TARGET, Edge, Server, edge
from runner import run_tests

PROMPT = (DRAFT.parents[1] / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
CHAT_LINE = f'{PROMPT.splitlines()[0]} red chair ahead at 1.0 m. Find it.'
LONG_ANSWER = ('-n', '60', '--temp', '1', '--seed', '11')


class WithServer(unittest.TestCase):
    """One warm server for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*FORGETFUL)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def run_edge(self, *flags, command='run', **more):
        return edge(command, '--server', self.server.address, *flags, **more)


class Answers(WithServer):
    def test_every_way_of_decoding_gives_the_same_text(self):
        for sampling in (('--temp', '0'), ('--temp', '1', '--seed', '5', '--top-p', '0.9')):
            common = ('-p', PROMPT, '-n', '40', '--json', *sampling)
            plain = self.run_edge('--strategy', 'ar', '--tokenizer', DRAFT, *common)
            self.assertEqual(plain.code, 0, plain.err)
            self.assertGreater(len(plain.json['ids']), 5)
            drafted = self.run_edge('--model', DRAFT, '--strategy', 'sd', *common)
            mirrored = self.run_edge('--model', DRAFT, *common)  # may find that drafting does not pay
            resident = edge('run', '--target', TARGET, '--model', DRAFT, *common)
            in_turns = edge('run', '--target', TARGET, '--model', DRAFT, '--draft-source', 'model', *common)
            self.assertNotIn('rests', in_turns.err)
            looked_up = self.run_edge('--tokenizer', DRAFT, *common)
            self.assertIn('draft look-up', looked_up.json['speculation'])
            both = self.run_edge('--model', DRAFT, '--draft-source', 'both', *common)
            for other in (drafted, mirrored, resident, in_turns, looked_up, both):
                self.assertEqual(other.code, 0, other.err)
                self.assertEqual(other.json['ids'], plain.json['ids'])
                self.assertEqual(other.json['text'], plain.json['text'])
            self.assertLess(drafted.json['target_passes'], plain.json['target_passes'])
            self.assertGreater(drafted.json['spec_decode_num_accepted_tokens'], 0)

    def test_a_corpus_with_the_answer_drafts_most_of_it(self):
        # sd, as mirror may find that it does not pay against passes of two milliseconds.
        common = ('--tokenizer', DRAFT, '-p', PROMPT, '-n', '60', '--temp', '1', '--seed', '5', '--json')
        plain = self.run_edge('--draft-source', 'none', *common)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / 'log.txt').write_text(plain.json['text'], encoding='utf-8')
            drafted = self.run_edge('--lookup-corpus', folder, '--strategy', 'sd', *common)
            self.assertEqual(drafted.json['ids'], plain.json['ids'])
            self.assertLess(drafted.json['target_passes'], plain.json['target_passes'] * 2 // 3)
            (Path(folder) / 'photo.jpg').write_bytes(b'\xff\xd8\x00\x01')
            refused = self.run_edge('--lookup-corpus', folder, *common)
            self.assertEqual(refused.code, 2, refused.err)
            self.assertIn('photo.jpg is not text', refused.err)
        missing = self.run_edge('--lookup-corpus', '/no/such/folder', *common)
        self.assertEqual(missing.code, 1, missing.err)
        self.assertIn('/no/such/folder does not exist', missing.err)

    def test_branches_that_end_in_the_middle_of_a_pass_change_no_text(self):
        common = ('--model', DRAFT, '-p', PROMPT, '-n', '40', '--tree', 'top-n', '--json')
        for sampling in (('--temp', '0'), ('--temp', '1', '--seed', '5')):
            whole = self.run_edge(*common, *sampling)
            pruned = edge('run', '--target', TARGET, '--prune', '0.2', *common, *sampling)
            self.assertEqual(pruned.code, 0, pruned.err)
            self.assertEqual(pruned.json['ids'], whole.json['ids'])
            self.assertEqual(whole.json['target_rows_pruned'], 0)
            self.assertGreater(pruned.json['target_rows_pruned'], 0)

    def test_pruning_that_cannot_be_is_said(self):
        with Server('--prune', '0.1', '--exits', 'none') as server:
            self.assertIn('pruning      OFF because the target has no early exits', ''.join(server.log))
        refused = self.run_edge('--model', DRAFT, '-p', 'x', '--prune', '0.1')
        self.assertEqual(refused.code, 2, refused.err)
        self.assertIn('--target', refused.err)

    def test_a_predictor_of_another_target_is_refused_and_decoding_goes_on(self):
        common = ('run', '--target', TARGET, '--model', DRAFT, '-p', PROMPT, '-n', '40', '--tree', 'top-n',
                  '--temp', '0', '--json', '--prune', '0.2')
        plain = edge(*common)
        fitting = edge(*common, '--predictor', TARGET)
        self.assertGreater(fitting.json['target_rows_pruned'], 0, fitting.err)
        with tempfile.TemporaryDirectory() as folder:
            index = json.loads((TARGET / 'adapters.json').read_text(encoding='utf-8'))
            index['target']['fingerprint'] = '0' * 64
            (Path(folder) / 'adapters.json').write_text(json.dumps(index), encoding='utf-8')
            shutil.copy(TARGET / 'adapters.safetensors', folder)
            other = edge(*common, '--predictor', folder)
        self.assertEqual(other.code, 0, other.err)
        self.assertIn('prune: OFF because of --predictor', other.err)
        self.assertIn('fingerprint', other.err)
        self.assertEqual(other.json['target_rows_pruned'], 0)
        for answer in (fitting, other):
            self.assertEqual(answer.json['ids'], plain.json['ids'])

    def test_rounds_of_two_branches_give_the_same_text(self):
        common = ('--model', DRAFT, '-p', PROMPT, '-n', '40', '--temp', '1', '--seed', '5', '--json')
        for strategy in ('sd', 'fsd'):
            chain = self.run_edge('--strategy', strategy, *common)
            tree = self.run_edge('--strategy', strategy, '--draft-branches', '2', *common)
            self.assertEqual(tree.code, 0, tree.err)
            self.assertEqual(tree.json['ids'], chain.json['ids'])
            drafted = tree.json['spec_decode_drafted_per_branch']
            accepted = tree.json['spec_decode_accepted_per_branch']
            self.assertGreater(drafted[0][1], 0, 'no round had a second branch')
            self.assertEqual(sum(map(sum, drafted)), tree.json['spec_decode_num_draft_tokens'])
            self.assertEqual(sum(map(sum, accepted)), tree.json['spec_decode_num_accepted_tokens'])

    def test_a_draft_with_a_shorter_context_drafts_as_far_as_it_reaches(self):
        common = ('-p', PROMPT, *LONG_ANSWER, '-c', '400', '--json')
        plain = self.run_edge('--strategy', 'ar', '--tokenizer', DRAFT, *common)
        self.assertEqual(plain.code, 0, plain.err)
        context = plain.json['prompt_tokens'] + 6
        self.assertLess(context, 400)
        with tempfile.TemporaryDirectory() as folder:
            short = Path(folder) / 'draft'
            shutil.copytree(DRAFT, short)
            config = json.loads((short / 'config.json').read_text(encoding='utf-8'))
            config['max_position_embeddings'] = context
            (short / 'config.json').write_text(json.dumps(config), encoding='utf-8')
            drafted = self.run_edge('--model', short, *common)
        self.assertEqual(drafted.code, 0, drafted.err)
        self.assertEqual(drafted.json['ids'], plain.json['ids'])
        self.assertGreater(drafted.json['spec_decode_num_draft_tokens'], 0)
        said = f"OFF from here because the draft's context of {context} tokens is full"
        self.assertEqual(drafted.err.count(said), 1, drafted.err)

    def test_a_target_on_the_device_has_its_exits_too(self):
        common = ('-p', PROMPT, '-n', '40', '--json')
        plain = self.run_edge('--strategy', 'ar', '--tokenizer', DRAFT, *common)
        resident = edge('run', '--target', TARGET, '--model', DRAFT, '--strategy', 'fsd', *common)
        self.assertEqual(resident.code, 0, resident.err)
        self.assertNotIn('no early exits', resident.out + resident.err)
        self.assertEqual(resident.json['ids'], plain.json['ids'])

    def test_the_text_on_stdout_is_the_text_of_the_json_line(self):
        answer = self.run_edge('--model', DRAFT, '-p', PROMPT, '-n', '40', '--json')
        self.assertTrue(answer.out.startswith(answer.json['text']), answer.out)

    def test_it_says_why_it_stopped(self):
        by_length = self.run_edge('--model', DRAFT, '-p', PROMPT, '-n', '3', '--json')
        self.assertEqual(by_length.json['stop_reason'], 'length')
        self.assertEqual(by_length.json['completion_tokens'], 3)
        whole = self.run_edge('--model', DRAFT, '-p', PROMPT, '-n', '100', '--json').json['text']
        stop = whole.split()[2]
        cut = self.run_edge('--model', DRAFT, '-p', PROMPT, '-n', '100', '--stop', stop, '--json')
        self.assertEqual(cut.json['stop_reason'], 'stop_string')
        self.assertEqual(cut.json['text'], whole[:whole.index(stop)])

    def test_later_turns_of_a_chat_reuse_the_server_s_cache(self):
        talk = f'{CHAT_LINE}\nAnd now?\n/stats\n'
        answer = self.run_edge('--model', DRAFT, '-n', '12', command='chat', stdin=talk)
        self.assertEqual(answer.code, 0, answer.err)
        self.assertIn("from the cache", answer.out + answer.err)

    def test_a_chat_explains_each_answer_and_traces_all(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / 'trace.json'
            answer = self.run_edge('--model', DRAFT, '-n', '8', '--explain', '--trace', trace,
                                   command='chat', stdin=f'{CHAT_LINE}\nAnd now?\n')
            events = json.loads(trace.read_text(encoding='utf-8'))['traceEvents']
        self.assertEqual(answer.code, 0, answer.err)
        self.assertEqual(answer.err.count('where the time went'), 2)
        first_passes = [e for e in events if e['name'].startswith('pass 0, ')]
        self.assertEqual(len(first_passes), 2, 'one for each answer')

    def test_a_draft_as_slow_as_the_target_rests_unless_it_is_asked_for(self):
        common = ('run', '--target', TARGET, '-p', PROMPT, '-n', '30', '--json', '--temp', '0')
        plain = edge(*common, '--draft-source', 'none')
        resting = edge(*common, '--model', TARGET)
        asked = edge(*common, '--model', TARGET, '--strategy', 'sd')
        self.assertIn('rests and look-up drafts', resting.err)
        self.assertIn('draft look-up', resting.json['speculation'])
        self.assertNotIn('rests', asked.err)
        for other in (resting, asked):
            self.assertEqual(other.json['ids'], plain.json['ids'], other.err)

    def test_the_doctor_says_whether_to_draft_and_what_it_measured(self):
        done = self.run_edge('--model', DRAFT, '-n', '16', '--json', command='doctor')
        self.assertEqual(done.code, 0, done.err)
        advice, found = done.json['advice'], done.json['found']
        self.assertEqual(advice['draft'], advice['interval'][0] > 1)
        self.assertEqual(advice['draft'], advice['strategy'] != 'ar')
        for figure in ('rtt_ms', 'draft_step_ms', 'target_pass_ms', 'bytes_per_token_up'):
            self.assertGreater(found[figure], 0, figure)
        for way in ('up_mbit_s', 'down_mbit_s'):
            self.assertGreater(found['bandwidth'][way], 1, way)
        self.assertTrue(done.json['fingerprint'])

    def test_garbage_on_the_port_disturbs_nobody(self):
        for garbage in (b'\x00' * 4096, b'GET / HTTP/1.1\r\n\r\n', bytes(range(256)) * 64):
            with socket.create_connection(('127.0.0.1', self.server.port), timeout=10) as link:
                link.sendall(garbage)
        answer = self.run_edge('--model', DRAFT, '-p', PROMPT, '-n', '5', '--json')
        self.assertEqual(answer.code, 0, answer.err)


class OnATerminal(WithServer):
    ESCAPE = re.compile('\x1b\\[[0-9;]*m')
    DIMMED = re.compile('\x1b\\[2m([^\x1b]*)\x1b\\[0m\x1b\\[(\\d+)D')

    def shown(self, *flags):
        """Returns the bytes that a terminal gets from a greedy answer."""
        screen, program = pty.openpty()
        fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
        running = Edge('run', '--server', self.server.address, '--model', DRAFT, '-p', PROMPT,
                       '-n', '40', *flags, stdout=program)
        os.close(program)
        output = b''
        while True:
            try:
                output += os.read(screen, 4096)
            except OSError:  # the program has closed its side
                break
        os.close(screen)
        self.assertEqual(running.wait().code, 0)
        return output.decode().replace('\r\n', '\n')

    def test_colours_mark_what_the_draft_guessed_and_change_no_letter(self):
        plain, coloured = self.shown(), self.shown('--color-accept')
        self.assertNotRegex(plain, self.ESCAPE)
        self.assertRegex(coloured, self.ESCAPE)
        answer = self.run_edge('--model', DRAFT, '-p', PROMPT, '-n', '40', '--json').json['text']
        self.assertIn(answer, plain)
        self.assertIn(answer, self.ESCAPE.sub('', coloured))

    def test_what_the_draft_expects_is_dimmed_and_leaves_no_letter(self):
        plain, shown = self.shown(), self.shown('--show-provisional')
        guesses = self.DIMMED.findall(shown)
        self.assertTrue(guesses)
        for guess, width in guesses:
            self.assertEqual(len(guess), int(width), 'the cursor goes back to where it was')
            self.assertNotIn('\n', guess)
        # Each is cleared before anything else is written.
        left = re.sub(self.DIMMED.pattern + '\x1b\\[K', '', shown)
        self.assertNotIn('\x1b', left)
        self.assertEqual(left, plain)

    def test_a_pipe_gets_nothing_provisional(self):
        flags = ('--model', DRAFT, '-p', PROMPT, '-n', '40')
        self.assertEqual(self.run_edge(*flags, '--show-provisional').out, self.run_edge(*flags).out)


class WrongUse(WithServer):
    def refused(self, answer, code, *words):
        self.assertEqual(answer.code, code, answer.err)
        for word in words:
            self.assertIn(word, answer.err)

    def test_usage_errors_name_the_flag_and_exit_2(self):
        self.refused(edge('run', '--no-such-flag'), 2, '--no-such-flag')
        self.refused(edge('run', '-p', 'x', '--temp', 'warm'), 2, '--temp')
        self.refused(edge('run', '--draft-source', 'both', '--tokenizer', DRAFT, '-p', 'x'), 2, '--model')

    def test_plaintext_to_another_machine_needs_a_word(self):
        answer = edge('run', '--server', '192.0.2.1:8001', '--model', DRAFT, '-p', 'x')
        self.refused(answer, 2, '--insecure')

    def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(self):
        answer = self.run_edge('--model', DRAFT, '-p', 'chair ' * 3000)
        self.refused(answer, 2, '3010', '1024')

    def test_a_prompt_of_nothing_is_refused_and_one_of_blanks_is_text(self):
        # The demo pair's tokenizer adds no token before a text.
        self.refused(self.run_edge('--model', DRAFT, '--raw', '-p', ''), 2, 'the prompt is empty')
        for prompt in (('-p', ''), ('--raw', '-p', ' \n\t  ')):  # the template says something
            answer = self.run_edge('--model', DRAFT, *prompt, '-n', '3', '--json')
            self.assertEqual(answer.code, 0, answer.err)
            self.assertGreater(answer.json['prompt_tokens'], 0)

    def test_no_token_is_what_minus_n_0_asks_for(self):
        answer = self.run_edge('--model', DRAFT, '-p', PROMPT, '-n', '0', '--json')
        self.assertEqual(answer.code, 0, answer.err)
        self.assertEqual(answer.json['ids'], [])
        self.assertEqual(answer.json['stop_reason'], 'length')

    def test_a_draft_of_another_tokenizer_is_refused_with_both_hashes(self):
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder) / 'draft'
            shutil.copytree(DRAFT, other)
            tokenizer = json.loads((other / 'tokenizer.json').read_text(encoding='utf-8'))
            vocabulary = tokenizer['model']['vocab']
            first, second = sorted(vocabulary, key=vocabulary.get)[300:302]
            vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
            (other / 'tokenizer.json').write_text(json.dumps(tokenizer), encoding='utf-8')
            answer = self.run_edge('--model', other, '-p', PROMPT, '-n', '5')
        self.assertEqual(answer.code, 1, answer.err)
        self.assertIn('the tokenizer of the draft, or of --tokenizer, is not that of the target', answer.err)
        self.assertIn('name the target\'s tokenizer with --tokenizer', answer.err)
        self.assertNotIn('Open.', answer.err)
        hashes = re.findall('[0-9a-f]{64}', answer.err)
        self.assertEqual((len(hashes), len(set(hashes))), (2, 2), f'each once: {answer.err}')

    def test_so_is_one_whose_tokenizer_is_a_sentencepiece_model(self):
        def message(field, content):
            return bytes([field << 3 | 2, len(content)]) + content

        pieces = [('<unk>', 2), ('<s>', 3), ('</s>', 3), ('a', 1)]
        model = b''.join(message(1, message(1, text.encode()) + bytes([3 << 3, kind]))
                         for text, kind in pieces)
        model += message(2, bytes([3 << 3, 2]))  # BPE
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder) / 'draft'
            shutil.copytree(DRAFT, other)
            (other / 'tokenizer_config.json').unlink()
            (other / 'tokenizer.json').unlink()
            flags = ('--tokenizer', DRAFT, '--model', other, '-p', PROMPT, '-n', '5', '--json')
            without = self.run_edge(*flags)
            (other / 'tokenizer.model').write_bytes(model)
            answer = self.run_edge(*flags)
        self.assertEqual(without.code, 0, without.err)
        self.assertEqual(answer.code, 1, answer.err)
        self.assertIn('the tokenizer of draft changes text', answer.err)

    def test_a_tokenizer_with_more_tokens_than_the_model_knows_is_refused_by_both_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            copies = [Path(folder) / 'target', Path(folder) / 'draft']
            for copy, model in zip(copies, (TARGET, DRAFT)):
                shutil.copytree(model, copy)
                file = copy / 'tokenizer.json'
                tokenizer = json.loads(file.read_text(encoding='utf-8'))
                tokenizer['added_tokens'].append({**tokenizer['added_tokens'][-1], 'id': 3072, 'content': '<pad>'})
                file.write_text(json.dumps(tokenizer), encoding='utf-8')
            target, draft = copies
            said = 'its tokenizer has 3073 tokens, but its embedding only 3072 rows'
            for flags in (('--target', target), ('--target', TARGET, '--model', draft, '--tokenizer', draft)):
                answer = edge('run', '-p', 'x', *flags)
                self.assertEqual(answer.code, 2, answer.err)
                self.assertIn(said, answer.err)
            packed = edge('pack', '--model', target, '--out', Path(folder) / 'pack')
            self.assertEqual(packed.code, 2, packed.err)
            self.assertIn(said, packed.err)
            with self.assertRaisesRegex(RuntimeError, said):
                Server(model=target)

    def test_a_path_that_is_not_there_is_said_to_be_that(self):
        for flags in (('--model', '/none/draft'), ('--tokenizer', '/none/draft'), ('--target', '/none/draft'),
                      ('--tokenizer', DRAFT, '--model', '/none/draft')):
            answer = edge('run', *flags, '-p', 'x')
            self.assertEqual(answer.code, 1, answer.err)
            self.assertIn('/none/draft: no such file or directory', answer.err)

    def test_an_adapter_is_not_taken_for_a_model(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / 'adapter_config.json').write_text('{}', encoding='utf-8')
            self.refused(self.run_edge('--tokenizer', DRAFT, '--model', folder, '-p', 'x'), 2, 'is a LoRA adapter')

    def test_a_server_s_address_is_no_url(self):
        answer = edge('run', '--server', 'http://127.0.0.1:8001', '--tokenizer', DRAFT, '-p', 'x')
        self.assertEqual(answer.code, 2, answer.err)
        self.assertIn("begins with 'http://', which does not belong to it", answer.err)

    def test_a_damaged_model_names_its_file(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = Path(folder) / 'draft'
            shutil.copytree(DRAFT, broken)
            weights = broken / 'model.safetensors'
            weights.write_bytes(weights.read_bytes()[:100_000])
            self.refused(self.run_edge('--model', broken, '-p', 'x'), 1, 'model.safetensors')


class Text(unittest.TestCase):
    TEXTS = ['Hello, robot.', 'Größe 3,5 µm — 速度 5 🤖', '  leading and trailing  ']

    def test_lines_survive_a_round_trip(self):
        lines = '\n'.join(self.TEXTS) + '\n'
        ids = edge('tokenize', '--tokenizer', DRAFT, '--no-special', stdin=lines)
        self.assertEqual(ids.code, 0, ids.err)
        self.assertEqual(len(ids.out.splitlines()), len(self.TEXTS))
        back = edge('detokenize', '--tokenizer', DRAFT, '--no-special', stdin=ids.out)
        self.assertEqual(back.out, lines)

    def test_an_id_outside_the_vocabulary_is_refused(self):
        answer = edge('detokenize', '--tokenizer', DRAFT, stdin='[1, 99999999]\n')
        self.assertEqual(answer.code, 2)
        self.assertIn('99999999', answer.err)


class Settings(unittest.TestCase):
    def shown(self, *flags, environment=None):
        answer = edge('run', '-p', 'x', '--model', DRAFT, *flags, '--print-config',
                      environment=environment)
        self.assertEqual(answer.code, 0, answer.err)
        return answer.out

    def test_flag_beats_environment_beats_file_beats_default(self):
        with tempfile.NamedTemporaryFile('w', suffix='.toml') as file:
            file.write('seed = 3\ntop-k = 7\n')
            file.flush()
            config = ('--config', file.name)
            self.assertRegex(self.shown(*config), r'seed\s*=\s*"?3')
            environment = {'OUTRIDER_SEED': '4'}
            self.assertRegex(self.shown(*config, environment=environment), r'seed\s*=\s*"?4')
            shown = self.shown(*config, '--seed', '5', environment=environment)
            self.assertRegex(shown, r'seed\s*=\s*"?5')
            self.assertRegex(shown, r'top-k\s*=\s*"?7')


if __name__ == '__main__':
    run_tests(verbosity=2)
