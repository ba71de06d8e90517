#!/usr/bin/env python3
"""How soon this device's target goes on after a server was lost: from the line that says so to the next
token on the terminal.

  bench/offline/takeover.py --prefixes 32,512,900
  bench/offline/takeover.py --target models/smollm2/*.gguf --draft models/smollm2/draft --dtype int4 --prefixes 4096

Cold, that is held to one layer-wise prefill: the time to the first token of this device alone, for the same
text, pack, budget and flash. The server is stopped with the cut, as one on another machine would take no cores
here. With a standby it is held to one pass over as many rows as it may be behind. Both
are measured in the same run; 10 % are allowed for what the machine does meanwhile. Nothing is shown (exit code
4) where an answer ended before it was cut, or a standby had not read the prompt.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from edges import DRAFT, ROOT, Server, StampedEdge, TARGET, edge, least_budget, pack
from outcome import Outcome, median
from tcp_link import TcpLink

ALLOWED = 1.10
LINE = 'failover: '


def text_of(tokenizer, tokens):
    """About that many tokens, and the same text each time."""
    source = (ROOT / 'docs/flash-streaming.md').read_text(encoding='utf-8') * (1 + tokens // 1000)
    flags = ('--tokenizer', tokenizer, '--no-special', '--whole')
    ids = json.loads(edge('tokenize', *flags, stdin=source).out)[:tokens]
    return edge('detokenize', *flags, stdin=json.dumps(ids)).out.strip()


class Takeover:
    def __init__(self, folder, options, prefix):
        self.options = options
        self.lag = options.lag
        self.text = text_of(options.target, prefix)
        self.common = ('--raw', '-c', prefix + options.max_tokens + 2, '--json', '-p', self.text)
        target = pack(options.target, options.dtype, Path(folder) / 'target.pack')
        draft = ('--model', options.draft, '--strategy', 'sd', '--tree', 'chain', '--spec-draft-n-max', max(1, self.lag - 1))
        budget = least_budget(target, *self.common, *draft) + options.spare_mib
        self.offline = ('--target', target, '--memory-budget', f'{budget}MiB', '--flash-bandwidth', options.flash_bandwidth)
        self.plain = ('--tokenizer', options.target, '--strategy', 'ar')
        self.draft = draft

    def alone(self, *flags):
        answer = edge('run', *self.offline, *flags, *self.common)
        if answer.code != 0:
            sys.exit(answer.err)
        return answer.json

    def prefill_ms(self):
        return self.alone(*self.plain, '-n', 2)['ttft_ms']

    def pass_ms(self):
        """Of a pass over as many rows as the standby may be behind, behind this prompt."""
        record = self.alone(*self.draft, '-n', min(6 * self.lag, self.options.max_tokens))
        passes = record['target_passes'] - 1
        return (record['target_compute_ms'] - record['first_verdict']['compute_ms']) / passes if passes > 0 else None

    def cut(self, server, link, manner, wait_s, *flags):
        """(detection in ms, from there to the next token in ms, the record), or None if it ended before."""
        running = StampedEdge('run', '--server', link.address, *self.offline, *self.plain, *flags,
                              '-n', self.options.max_tokens, '--temp', 1, '--handback-after', 600, *self.common)
        if not running.wait_until(lambda: running.text(), 120):
            return None
        time.sleep(wait_s)
        cut = time.monotonic()
        server.process.send_signal(signal.SIGSTOP)
        link.reset() if manner == 'reset' else link.silence()
        lost = running.wait_until(lambda: running.said(LINE) is not None, 60)
        if not lost:
            return None
        detected = running.said(LINE)
        running.wait_until(lambda: running.first_output_after(detected), 120)
        first = running.first_output_after(detected)
        running.process.send_signal(signal.SIGINT)
        _, _, record, _ = running.wait()
        return ((detected - cut) * 1e3, (first - detected) * 1e3, record) if first else None


def measure(takeover, outcome, prefix, with_standby):
    """Repetitions, each with its own reference measured right before it."""
    options = takeover.options
    name = f'{prefix} tokens, ' + (f'standby {takeover.lag}' if with_standby else 'cold')
    ratios, firsts, references, detections = [], [], [], {'reset': [], 'silence': []}
    for number in range(options.repetitions):
        prefill = takeover.prefill_ms()
        reference = takeover.pass_ms() if with_standby else prefill
        manner = ('reset', 'silence')[number % 2]
        server = Server('--pace-pass-ms', options.pace_ms, '--ignore-eos', '--dtype', options.dtype, '--exits', 'none',
                        model=options.target)
        link = TcpLink(server.port)
        flags = ('--standby-lag', takeover.lag) if with_standby else ()
        wait_s = 2 * prefill / 1e3 + 2 if with_standby else 8 * options.pace_ms / 1e3
        measured = takeover.cut(server, link, manner, wait_s, *flags)
        link.close()
        server.kill()
        if measured is None or reference is None:
            outcome.show_nothing(f'{name}: an answer ended before it was cut')
            continue
        detection, first, record = measured
        if with_standby and (record is None or (record['cached_tokens'] or 0) < record['prompt_tokens']):
            outcome.show_nothing(f'{name}: the standby had not read the prompt')
        detections[manner].append(detection)
        ratios.append(first / reference)
        firsts.append(first)
        references.append(reference)
        print(f'{name}: {manner}: detected after {detection:.0f} ms, first token {first:.0f} ms later, '
              f'reference {reference:.0f} ms, prefill {prefill:.0f} ms', file=sys.stderr)
    if not ratios:
        return
    outcome.figures[name] = {'first_token_ms': statistics.median(firsts), 'reference_ms': statistics.median(references),
                             'detection_ms': {k: statistics.median(v) for k, v in detections.items() if v}}
    outcome.hold(f'{name}: first token after detection, over its reference', median(ratios), ALLOWED, at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--target', default=str(TARGET))
    parser.add_argument('--draft', default=str(DRAFT))
    parser.add_argument('--dtype', default='auto')
    parser.add_argument('--prefixes', default='32,512,900')
    parser.add_argument('--lag', type=int, default=16, help='--standby-lag of the standby\'s half')
    parser.add_argument('--only', choices=['cold', 'standby'])
    parser.add_argument('--flash-bandwidth', default='200MB/s', help='of the emulated flash')
    parser.add_argument('--spare-mib', type=int, default=0, help='beyond the least --memory-budget')
    parser.add_argument('--pace-ms', type=float, default=100, help='of a pass of the server')
    parser.add_argument('--max-tokens', type=int, default=110, help='of an answer, which must last until it is cut')
    parser.add_argument('--repetitions', type=int, default=9)
    options = parser.parse_args()
    outcome = Outcome('takeover')
    outcome.figures['emulated_flash'] = options.flash_bandwidth
    with tempfile.TemporaryDirectory() as folder:
        for prefix in map(int, options.prefixes.split(',')):
            takeover = Takeover(folder, options, prefix)
            for with_standby in (False, True):
                if options.only != ('cold' if with_standby else 'standby'):
                    measure(takeover, outcome, prefix, with_standby)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
