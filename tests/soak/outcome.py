"""The result of a script in this folder: bars, one line of JSON, and the exit code of outrider-bench.

  0 every bar is met · 1 a bar is missed by the pessimistic bound, or a text differs · 2 wrong usage ·
  4 inconclusive: nothing failed, but the event that the claim is about never happened

SPDX-License-Identifier: Apache-2.0
"""
import json
import random
import statistics
import sys

RESAMPLES = 2000
INCONCLUSIVE = 4


def bootstrap(samples, statistic):
    """(value, low, high): of the samples, and its 95 % interval; no interval of a single one."""
    value = statistic(samples)
    if len(samples) < 2:
        return value, None, None
    draws = random.Random(1)
    values = sorted(statistic(draws.choices(samples, k=len(samples))) for _ in range(RESAMPLES))
    return value, values[round(0.025 * (RESAMPLES - 1))], values[round(0.975 * (RESAMPLES - 1))]


def median(samples):
    return bootstrap(samples, statistics.median)


class Outcome:
    """Collects what was measured; finish() prints it and gives the exit code."""

    def __init__(self, check):
        self.figures = {'check': check}
        self.bars, self.failures, self.inconclusive = [], [], None

    def fail(self, why):
        self.failures.append(why)
        print(f'FAILED: {why}', file=sys.stderr)

    def mark_inconclusive(self, why):
        self.inconclusive = self.inconclusive or why

    def hold(self, name, estimate, limit, at_least=True):
        """Compares a bar with the pessimistic bound: the end of the interval closer to failing."""
        value, low, high = estimate
        if low is None:
            self.mark_inconclusive(f'"{name}" has no confidence interval: one sample is too few')
        near = (low if at_least else high) if low is not None else value
        met = near >= limit if at_least else near <= limit
        side = 'at least' if at_least else 'at most'
        interval = f' [{low:.4g}, {high:.4g}]' if low is not None else ''
        print(f'{name}: {value:.4g}{interval}, {side} {limit:.4g}: {"met" if met else "NOT MET"}', file=sys.stderr)
        self.bars.append({'name': name, 'value': value, 'low': low, 'high': high, 'side': side, 'limit': limit, 'met': met})

    def finish(self):
        if not self.bars and not self.failures:
            self.mark_inconclusive('there is no bar to judge')
        passed = not self.failures and all(bar['met'] for bar in self.bars)
        line = {**self.figures, 'passed': passed and not self.inconclusive, 'bars': self.bars}
        if self.failures:
            line['failures'] = self.failures
        if self.inconclusive:
            line['inconclusive'] = self.inconclusive
            print(f'inconclusive: {self.inconclusive}', file=sys.stderr)
        print(json.dumps(line), flush=True)
        if not passed:
            return 1
        return INCONCLUSIVE if self.inconclusive else 0
