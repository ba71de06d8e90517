#!/usr/bin/env python3
"""One answer by five programs in turn, and one run on one CPU: the same tokens, which an audit reads again.

  ./run proof [--out FOLDER]

The edge is the program for Arm, under qemu-user. Its target is streamed from flash whenever no server is there.

  1. A server decides beside fifteen other clients, with early exits, and with drafts on both sides.
  2. The link is cut: the edge goes on alone.
  3. A second server decides, until kill -9.
  4. Some twenty tokens come from a GPU's kernels, by fibers on the CPU. --gpu cuda: on a GPU, by the programs of
     ./run build cuda (OUTRIDER_BIN=build/cuda/bin tests/soak/proof.py --gpu cuda).
  5. A third server ends the answer, by other kernels than the first one's: those of a CPU without AVX-512, or without SDOT.

Then four faults are planted in records of answers, and the audit must name each: a wrong seed, tokens of another model, of the
same model's other bits (int8), a dropped token. FOLDER gets the record, both texts and a picture. Exit code 1: a token differs,
or a fault was not seen; 4: one of the programs did not come to decide.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import contextlib
import html
import http.client
import json
import platform
import random
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from audit import audit, forge_seed, lines_of, read_records
from edges import BIN, CLEAN_ENVIRONMENT, DRAFT, ROOT, TARGET, HeldServer, Server, edge, ending_with_us, eventually, free_port, least_budget, pack
from outcome import Outcome
from tcp_link import TcpLink

ARM_EDGE, ARM_LIBRARIES = ROOT / 'build/arm64/bin/outrider-edge', ROOT / '.cache/arm64'
OTHER_KERNELS = {'x86_64': 'avx2', 'aarch64': 'neon'}  # of those that a newer CPU does not choose
PROMPT = (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
SEED = 7
SECONDS = 240  # for any one part
CONTEXT = 1024
COLOURS = ('#2f6db3', '#d97b29', '#5a9a4a', '#8a56a6', '#b8495a')  # of a picture
BY_GPU = 28      # tokens, as the text's letters tell
SPARE_MIB = 3    # above the least budget
FLAGS = ('--failover-after', SECONDS, '--failback-after', 0, '--min-rate', 0.01, '--reconnect-timeout', SECONDS)


def asked(tokens):
    return ('-p', PROMPT, '-n', tokens, '--ignore-eos', '--temp', 0.8, '--seed', SEED, '-c', CONTEXT)


class RunningEdge:
    """An answer whose text and log are read as they come."""

    def __init__(self, words, *arguments):
        self.process = subprocess.Popen(ending_with_us(*words, 'run', *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=CLEAN_ENVIRONMENT)
        self.text, self.log, self.leads = bytearray(), bytearray(), []
        self.readers = [threading.Thread(target=self._read, args=pair, daemon=True) for pair in ((self.process.stdout, self.text), (self.process.stderr, self.log))]
        for reader in self.readers:
            reader.start()

    def _read(self, stream, into):
        while piece := stream.read1():
            into += piece
            if into is self.log:
                sys.stderr.write(piece.decode(errors='replace'))
        stream.close()

    def until(self, come_true, what):
        eventually(lambda: come_true() or self.process.poll() is not None, f'{what}; the text so far: {bytes(self.text)!r}', SECONDS)

    def lead(self, link, server):
        """From now on the link leads to this server."""
        self.leads.append((len(re.findall(rb'going on online', self.log)), server.name))
        link.lead_to(server.address)
        link.restore()

    def changes(self):
        """[(the token from which on, the server that decides; None: the edge)] so far."""
        found, online = [(0, self.leads[0][1])], 0
        for where, token in re.findall(r'going on (offline|online) at token (\d+)', self.log.decode(errors='replace')):
            online += where == 'online'
            found.append((int(token), [name for before, name in self.leads if before < online][-1] if where == 'online' else None))
        return found

    def decided_by(self, name, letters_a_token):
        """About how many tokens that server has decided by now."""
        changes = [*self.changes(), (len(self.text) / letters_a_token, None)]
        return sum(after - at for (at, who), (after, _) in zip(changes, changes[1:]) if who == name)

    def wait(self):
        code = self.process.wait()
        for reader in self.readers:
            reader.join()
        return code


class Company:
    """Clients that ask a server one thing after another, until it is gone."""

    def __init__(self, port, count):
        self.answers = 0
        self.threads = [threading.Thread(target=self._ask, args=(port, number), daemon=True) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def _ask(self, port, number):
        body = json.dumps({'prompt': f'{PROMPT} {number}', 'max_tokens': 64, 'temperature': 1, 'seed': number, 'ignore_eos': True})
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                connection = http.client.HTTPConnection('127.0.0.1', port, timeout=SECONDS)
                connection.request('POST', '/v1/completions', body, {'Content-Type': 'application/json'})
                response = connection.getresponse()
                response.read()
                connection.close()
                self.answers += response.status == 200

    def join(self):
        for thread in self.threads:
            thread.join()


class Proof:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.servers, self.changes, self.company = [], [], 0
        self.record, self.target = folder / 'record.jsonl', pack(TARGET, 'bf16', folder / 'target.pack')
        plain = edge('run', '--target', TARGET, '--strategy', 'ar', '--threads', 1, *asked(options.tokens), '--json')
        if plain.code != 0:
            sys.exit(plain.err)
        self.plain = plain.json
        self.prompt, self.flash = self.plain['prompt_tokens'], ()
        if options.arm:
            self.words, self.edge_name = ('qemu-aarch64', '-L', ARM_LIBRARIES, ARM_EDGE), 'the edge for Arm (NEON), from flash'
        else:
            # Slow flash, or the device has said all before a server is back.
            self.words, self.edge_name = (BIN / 'outrider-lab-edge',), f'the edge ({platform.machine()}), from an emulated flash'
            self.flash = ('--flash-bandwidth', '100MB/s')

    def letters(self, token):
        """About how much of the text there is before a token."""
        return len(self.plain['text'].encode()) * token // self.options.tokens

    def start(self, stack, name, *flags, held=None):
        """A server of the answer. held: it decides no token behind that one."""
        kind = Server if held is None else HeldServer
        server = stack.enter_context(kind(*flags))
        server.name = name
        self.servers.append(name)
        if held is not None:
            server.hold(self.prompt + held)
        return server

    def decide(self):
        """The exit code of the edge, whose answer the servers and the edge itself decide in turn."""
        part, web, kernels = self.options.tokens // 5, free_port(), OTHER_KERNELS[platform.machine()]
        budget = least_budget(self.target, '--model', DRAFT, '-c', CONTEXT, '-p', 'x') + SPARE_MIB
        with contextlib.ExitStack() as stack:
            first = self.start(stack, f'a server beside {self.options.company} clients', '--http-port', web, '--draft-model', DRAFT,
                               '--max-concurrent-sessions', self.options.company + 1, held=part)
            second = self.start(stack, 'a second server, until kill -9', held=2 * part)
            gpu = self.options.gpu and self.start(stack, f'a GPU\'s kernels (--device {self.options.gpu})', '--device', self.options.gpu,
                                                  '--draft-source', 'none')
            last = self.start(stack, f'a third server, --kernel {kernels}', '--kernel', kernels, '--draft-source', 'none')
            link = stack.enter_context(contextlib.closing(TcpLink(first.port)))
            company = Company(web, self.options.company)
            running = RunningEdge(self.words, '--server', link.address, '--target', self.target, '--memory-budget', f'{budget}MiB', '--model', DRAFT,
                                  *asked(self.options.tokens), *FLAGS, *self.flash, '--record', self.record)
            running.lead(link, first)
            running.until(lambda: len(running.text) >= self.letters(part * 8 // 10), 'the first server is silent')
            link.reset()
            first.kill()
            company.join()
            self.company = company.answers
            running.until(lambda: len(running.text) >= self.letters(part * 13 // 10), 'the device is silent')
            running.lead(link, second)
            running.until(lambda: len(running.text) >= self.letters(2 * part * 9 // 10), 'the second server is silent')
            if gpu:
                running.lead(link, gpu)
            second.kill()
            if gpu:
                running.until(lambda: running.decided_by(gpu.name, self.letters(100) / 100) >= BY_GPU, 'the GPU\'s kernels are silent')
            running.lead(link, last)
            if gpu:
                gpu.kill()
            code = running.wait()
        self.changes = running.changes()
        return code

    def parts(self):
        """[(who decided, the tokens from .. to, digests)] of the record. A stretch that only goes on is no part of its own."""
        parts, at = [], 0
        for stretch in map(json.loads, self.record.read_text(encoding='utf-8').splitlines()[1:]):
            end = at + len(stretch['ids'])
            who = [name for token, name in self.changes if token <= at][-1]
            if stretch['verifier'].startswith('server') != (who is not None):
                raise RuntimeError(f'the log says {who}, the record {stretch["verifier"]} of token {at}: {self.changes}')
            name, digests = who or self.edge_name, len(stretch.get('digests') or ())
            if parts and parts[-1][0] == name:
                _, at, _, before = parts.pop()
                digests += before
            if end > at:
                parts.append((name, at, end, digests))
            at = end
        return parts

    def plant(self, outcome):
        """Each fault is in a record of its own, which is without a signature and has hashes made anew."""
        honest = [json.loads(line) for line in self.record.read_text(encoding='utf-8').splitlines()]

        def forged_by(*flags):
            """The answer of another target, as if the honest one had given it."""
            file = self.folder / 'other.jsonl'
            file.unlink(missing_ok=True)
            if edge('run', *flags, '--strategy', 'ar', *asked(96), '--record', file).code != 0:
                outcome.fail(f'no answer by {flags}')
            forged = [json.loads(line) for line in read_records(file)[0]]
            for name in ('model', 'fingerprint', 'dtype', 'kv_dtype', 'arithmetic_id'):
                forged[1][name] = honest[1][name]
            return forged

        def changed(change):
            forged = json.loads(json.dumps(honest))
            change(forged)
            return forged

        def drop(record):
            stretch = max(record[1:], key=lambda one: len(one['ids']))
            del stretch['ids'][len(stretch['ids']) // 2]
            stretch['tokens'] = len(stretch['ids'])
        faults = {'a wrong seed': changed(lambda record: forge_seed(random.Random(1), record)), 'another model': forged_by('--target', DRAFT),
                  'other bits (int8)': forged_by('--target', TARGET, '--dtype', 'int8'), 'a dropped token': changed(drop)}
        for fault, record in faults.items():
            file = self.folder / 'forged.jsonl'
            file.write_text('\n'.join(lines_of(record)) + '\n', encoding='utf-8')
            wrong = audit(file, TARGET)[0]
            print(f'planted {fault}: {next(iter(wrong.values()), "NOT SEEN")}')
            if not wrong:
                outcome.fail(f'{fault} was not seen')


def picture(parts, tokens):
    """A bar of the answer's tokens, and who decided them."""
    width, left, row = 900, 20, 24
    names = list(dict.fromkeys(name for name, *_ in parts))
    colour = dict(zip(names, COLOURS))
    bars = [f'<rect x="{left + width * begin / tokens:.1f}" y="20" width="{max(1, width * (end - begin) / tokens):.1f}" height="36" fill="{colour[name]}" '
            'stroke="#fff"/>' for name, begin, end, _ in parts]
    lines = [f'<text x="{left}" y="{84 + row * place}"><tspan fill="{colour[name]}">&#9632;</tspan> tokens {begin + 1} to {end}: {html.escape(name)}</text>'
             for place, (name, begin, end, _) in enumerate(parts)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 2 * left} {90 + row * len(parts)}" font-family="sans-serif" font-size="15" '
            f'fill="#333"><rect width="100%" height="100%" fill="#fff"/>{"".join(bars)}{"".join(lines)}</svg>\n')


def show(proof, outcome):
    parts = proof.parts()
    ids = [token for stretch in map(json.loads, proof.record.read_text(encoding='utf-8').splitlines()[1:]) for token in stretch['ids']]
    print(f'{"tokens":>11}  {"digests":>7}  decided by')
    for name, begin, end, digests in parts:
        print(f'{begin + 1:>4} to {end:>3}  {digests:>7}  {name}')
    for name in proof.servers:
        if name not in (part[0] for part in parts):
            outcome.mark_inconclusive(f'{name} decided nothing')
    if not any(name == proof.edge_name for name, *_ in parts):
        outcome.mark_inconclusive('the device decided nothing')
    different = sum(one != other for one, other in zip(ids, proof.plain['ids'])) + abs(len(ids) - len(proof.plain['ids']))
    print(f'diff with one run on one CPU: {different or "none"} of {len(ids)} tokens')
    outcome.hold('tokens that differ from one run on one CPU', (different, different, different), 0, at_least=False)
    (proof.folder / 'answer.svg').write_text(picture(parts, len(ids)), encoding='utf-8')
    outcome.figures |= {'tokens': len(ids), 'parts': [{'by': name, 'tokens': end - begin} for name, begin, end, *_ in parts],
                        'answers_in_company': proof.company}
    wrong, (_, tokens, digests, _), _ = audit(proof.record, TARGET)
    print(f'audit: {tokens} tokens and {digests} digests compared, {len(wrong)} wrong')
    for why in wrong.values():
        outcome.fail(why)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', type=Path, help='folder of what it writes [one that is removed again]')
    parser.add_argument('--tokens', type=int, default=600)
    parser.add_argument('--company', type=int, default=15, help='clients beside the first server\'s edge')
    parser.add_argument('--gpu', default='host-cuda', choices=('cuda', 'host-cuda', ''), help='empty: without its kernels')
    parser.add_argument('--no-arm', dest='arm', action='store_false', help='the edge is this machine\'s own program')
    options = parser.parse_args()
    if platform.machine() != 'x86_64':
        options.arm = False
    if options.arm and not (ARM_EDGE.exists() and ARM_LIBRARIES.exists()):
        parser.error(f'{ARM_EDGE} or {ARM_LIBRARIES} is missing. Remedy: ./run proof, which builds them; or --no-arm')
    outcome = Outcome('proof')
    with tempfile.TemporaryDirectory() as folder:
        out = options.out or Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        (out / 'record.jsonl').unlink(missing_ok=True)
        proof = Proof(options, out)
        code = proof.decide()
        if code != 0:
            outcome.fail(f'the edge ended with exit code {code}')
        show(proof, outcome)
        proof.plant(outcome)
        if options.out:
            (out / 'plain.txt').write_text(proof.plain['text'], encoding='utf-8')
            print(f'picture, record and texts: {out}')
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
