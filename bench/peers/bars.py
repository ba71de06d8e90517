"""The bars on Outrider's speed relative to the peer, and whether they are met: pure functions.

A ratio is the peer's median time over ours, over rounds in which both took turns; its interval is the percentile
bootstrap over rounds, 95 %, from a fixed seed. A bar is held on the low end of it.
SPDX-License-Identifier: Apache-2.0
"""
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../tests/soak'))
from outcome import bootstrap  # noqa: E402

ONE_ROW = {'F16': 1.0, 'Q8_0': 1.15, 'Q4_0': 1.4, 'Q4_1': 1.4, 'Q4_K': 1.05, 'IQ4_NL': 1.0, 'IQ4_XS': 1.0}
MORE_ROWS, MORE_ROWS_OF = 1.2, {'Q4_K': 1.5}
PROMPT, PROMPT_OF = 1.2, {'Q4_K': 1.15}
# Tokens a second of so many clients of a server, relative to the peer's.
SERVING = {1: 1.0, 4: 1.6, 8: 1.8, 16: 1.3}
# With these the peer multiplies many rows by instructions that we do not use: reported without a bar.
MATRIX_UNITS = ('AMX_INT8 = 1', 'AVX512_BF16 = 1')


def ratio_of(pairs):
    """The ratio of [(our ms, the peer's ms)] with its interval: (value, low, high); without an interval for one round."""
    def of(rounds):
        ours, peer = zip(*rounds)
        return statistics.median(peer) / statistics.median(ours)
    return bootstrap(pairs, of)


def limit_of(case, kind, peer):
    """The lowest allowed ratio of a case ('pass 1 32', 'prefill 512') of a file of that tensor type; None: no bar."""
    verb, number = case.split()[:2]
    if verb == 'pass' and number == '1':
        return ONE_ROW.get(kind)
    if any(unit in peer for unit in MATRIX_UNITS):
        return None
    return PROMPT_OF.get(kind, PROMPT) if verb == 'prefill' else MORE_ROWS_OF.get(kind, MORE_ROWS)


def judge(times, kind, peer):
    """{case: figures with its bar} and the exit code: 0 all bars met, 1 one missed, 4 inconclusive."""
    cases, held = {}, []
    for case, pairs in times.items():
        value, low, high = ratio_of(pairs)
        limit = limit_of(case, kind, peer)
        met = None if limit is None or low is None else low >= limit
        held.append(met)
        cases[case] = {'outrider_ms': round(statistics.median(ours for ours, _ in pairs), 3),
                       'peer_ms': round(statistics.median(theirs for _, theirs in pairs), 3), 'ratio': round(value, 3),
                       'low': low and round(low, 3), 'high': high and round(high, 3), 'least': limit, 'met': met}
    return cases, code_of(held)


def code_of(held):
    """0: every bar is met; 1: one is missed; 4: there was none to judge."""
    if False in held:
        return 1
    return 0 if True in held else 4


def judge_serving(ratios):
    """{case: figures with its bar} and the exit code, of {clients: {name: ratio with its interval}}."""
    cases = {}
    for clients, named in ratios.items():
        for name, side, limit in (('tokens_per_s', 'at least', SERVING.get(clients)), ('p95_tpot', 'at most', 1.0)):
            value, low, high = (named[name][key] for key in ('value', 'low', 'high'))
            met = None
            if limit is not None and low is not None:
                met = low >= limit if side == 'at least' else high <= limit
            cases[f'{clients} clients, {name}'] = {'value': value, 'low': low and round(low, 3), 'high': high and round(high, 3),
                                                   'side': side, 'limit': limit, 'met': met}
    return cases, code_of([case['met'] for case in cases.values()])
