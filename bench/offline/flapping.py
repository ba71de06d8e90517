#!/usr/bin/env python3
"""A link that comes and goes: tokens that a user gets in a minute with the server alone, with this device
alone, and with both, and whether the text stays the same.

  bench/offline/flapping.py --prompts FILE.jsonl [--seconds 60 --up 2 --down 2 --cut silence,reset]

All three answer the same prompts, one after the other, over a link that goes up and down by the same clock from
the moment at which each edge starts. Tokens count that were committed within the time. Prompts are those of the
file whose answers are long; where one is over within the time all the same, nothing is shown (exit code 4).
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from edges import DRAFT, Server, StampedEdge, TARGET, edge, least_budget, pack, read_prompts
from outcome import Outcome, bootstrap
from tcp_link import TcpLink

MODES = ('online', 'offline', 'auto')
LEAST = 0.9
SPARE_MIB = 8  # what ways of drafting differ in


class Flapper:
    """Cuts and restores a link by the clock until it is told to stop."""

    def __init__(self, link, manner, up, down):
        self.link, self.cut = link, {'silence': link.silence, 'reset': link.reset}[manner]
        self.up, self.down = up, down
        self.cuts = 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        next_at = time.monotonic()
        while True:
            next_at += self.up
            if self.stopping.wait(next_at - time.monotonic()):
                return
            self.cut()
            self.cuts += 1
            next_at += self.down
            stopped = self.stopping.wait(next_at - time.monotonic())
            self.link.restore()
            if stopped:
                return

    def stop(self):
        self.stopping.set()
        self.thread.join()


def tokens_within(record, seconds):
    return sum(count for at, count in zip(record['chunk_ms'], record['chunk_tokens']) if at <= seconds * 1e3)


def long_prompts(options, flags):
    """Those whose answers go on to --max-tokens."""
    found = []
    for prompt in read_prompts(options.prompts, 0):
        alone = edge('run', '--mode', 'offline', *flags, '-p', prompt)
        if alone.json and alone.json['completion_tokens'] == options.max_tokens:
            found.append(prompt)
        if len(found) == options.answers:
            break
    return found


def answer(options, target_flags, mode, manner, prompt):
    """(tokens within the time, cuts, whether it was over before, the record)."""
    server = Server('--pace-pass-ms', options.pace_ms, '--exits', 'none', model=options.target)
    link = TcpLink(server.port)
    flapper = Flapper(link, manner, options.up, options.down)
    running = StampedEdge('run', '--mode', mode, '--server', link.address, *target_flags, '-p', prompt,
                          '--handback-after', options.handback_after)
    ended = running.wait_until(lambda: False, options.seconds + 1) or running.process.poll() is not None
    if not ended:
        running.process.send_signal(signal.SIGINT)
    flapper.stop()
    code, _, record, said = running.wait(60)
    link.close()
    server.stop()
    if record is None:
        sys.exit(f'{mode}: exit code {code}: {said}')
    return tokens_within(record, options.seconds), flapper.cuts, ended, record


def compare(options, target_flags, manner, prompt, outcome):
    """Tokens by mode, or None if an answer was too short."""
    tokens, ids = {}, {}
    for mode in MODES:
        tokens[mode], cuts, ended, record = answer(options, target_flags, mode, manner, prompt)
        ids[mode] = record['ids']
        print(f'{manner}, {mode}: {tokens[mode]} tokens in {options.seconds:.0f} s, '
              f'{cuts} cuts, {record["failovers_total"]} failovers, {record["handbacks_total"]} handbacks, '
              f'{record["stopped_by"]}', file=sys.stderr)
        if ended:
            outcome.show_nothing(f'{mode}: the answer was over before the time: {record["stopped_by"]}')
            return None
        if mode == 'auto' and record['failovers_total'] == 0:
            outcome.show_nothing('the link was never left')
    shortest = min(map(len, ids.values()))
    if any(ids[mode][:shortest] != ids['offline'][:shortest] for mode in MODES):
        outcome.fail(f'{manner}: the texts differ')
    return tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--target', default=str(TARGET))
    parser.add_argument('--draft', default=str(DRAFT))
    parser.add_argument('--prompts', required=True, help='JSONL file with "prompt"')
    parser.add_argument('--cut', default='silence', help='silence, reset, or both with a comma')
    parser.add_argument('--seconds', type=float, default=60)
    parser.add_argument('--up', type=float, default=2)
    parser.add_argument('--down', type=float, default=2)
    parser.add_argument('--handback-after', type=float, default=2)
    parser.add_argument('--pace-ms', type=float, default=100, help='of a pass of the server')
    parser.add_argument('--flash-bandwidth', default='25MB/s', help='of the emulated flash')
    parser.add_argument('--max-tokens', type=int, default=620)
    parser.add_argument('--strategy', default='ar', help='ar: a token takes as long anywhere in the text')
    parser.add_argument('--temp', type=float, default=0)
    parser.add_argument('--answers', type=int, default=4)
    options = parser.parse_args()
    outcome = Outcome('flapping')
    with tempfile.TemporaryDirectory() as folder:
        target = pack(options.target, 'auto', Path(folder) / 'target.pack')
        flags = ('--model', options.draft, '--strategy', options.strategy, '-n', options.max_tokens, '--temp', options.temp, '--json')
        prompts = long_prompts(options, ('--target', target, *flags))
        if len(prompts) < options.answers:
            outcome.show_nothing(f'only {len(prompts)} prompts have answers of {options.max_tokens} tokens')
        budget = least_budget(target, *flags, '-p', 'x') + SPARE_MIB
        flags = ('--target', target, '--memory-budget', f'{budget}MiB', '--flash-bandwidth', options.flash_bandwidth, *flags)
        for manner in options.cut.split(','):
            measured = [compare(options, flags, manner, prompt, outcome) for prompt in prompts]
            measured = [tokens for tokens in measured if tokens]
            outcome.figures[manner] = measured
            outcome.figures.update(emulated_flash=options.flash_bandwidth, server_pass_ms=options.pace_ms)
            if measured:
                outcome.hold(f'{manner}: tokens over those of the better of the two', bootstrap(measured, over_better), LEAST)
    return outcome.finish()


def over_better(measured):
    total = {mode: sum(tokens[mode] for tokens in measured) for mode in MODES}
    return total['auto'] / max(total['online'], total['offline'], 1)


if __name__ == '__main__':
    sys.exit(main())
