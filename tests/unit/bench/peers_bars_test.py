#!/usr/bin/env python3
"""The bars of bench/peers/compare.py. SPDX-License-Identifier: Apache-2.0"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '../../../bench/peers'))
import bars  # noqa: E402

PLAIN = 'ready AVX2 = 1 | AVX512_BF16 = 0 |'
MATRIX = 'ready AVX2 = 1 | AMX_INT8 = 1 |'


def rounds(*ratios):
    return [(10.0, 10.0 * ratio) for ratio in ratios]


class Bars(unittest.TestCase):
    def test_one_row_has_the_limit_of_its_tensor_type(self):
        for kind, limit in {'F16': 1.0, 'Q8_0': 1.15, 'Q4_0': 1.4, 'Q4_1': 1.4, 'Q4_K': 1.05, 'IQ4_NL': 1.0, 'Q6_K': None, 'Q2_K': None}.items():
            self.assertEqual(bars.limit_of('pass 1 32', kind, PLAIN), limit)
            self.assertEqual(bars.limit_of('pass 1 32', kind, MATRIX), limit)

    def test_more_rows_and_prompts_have_one_unless_the_peer_has_matrix_units(self):
        for case in ('pass 5 32', 'pass 17 32', 'prefill 512', 'prefill 1'):
            self.assertEqual(bars.limit_of(case, 'F16', PLAIN), 1.2)
            self.assertIsNone(bars.limit_of(case, 'F16', MATRIX))
            self.assertIsNone(bars.limit_of(case, 'F16', 'ready AVX512_BF16 = 1 |'))
        self.assertEqual(bars.limit_of('pass 5 32', 'Q4_K', PLAIN), 1.5)
        self.assertEqual(bars.limit_of('prefill 512', 'Q4_K', PLAIN), 1.15)

    def test_the_ratio_is_that_of_the_medians_within_its_interval(self):
        value, low, high = bars.ratio_of([(1, 2), (2, 2), (4, 8)])
        self.assertEqual(value, 1.0)
        self.assertLessEqual(low, value)
        self.assertGreaterEqual(high, 2.0)
        self.assertEqual(bars.ratio_of([(1, 2), (2, 2), (4, 8)]), (value, low, high))
        self.assertEqual(bars.ratio_of([(1, 2)]), (2.0, None, None))

    def test_a_bar_is_held_on_the_low_end(self):
        cases, code = bars.judge({'pass 1 32': rounds(1.5, 1.5, 1.45)}, 'Q4_1', PLAIN)
        self.assertEqual((cases['pass 1 32']['met'], cases['pass 1 32']['low'], code), (True, 1.45, 0))
        cases, code = bars.judge({'pass 1 32': rounds(1.5, 1.5, 1.3)}, 'Q4_1', PLAIN)
        self.assertEqual((cases['pass 1 32']['ratio'], cases['pass 1 32']['met'], code), (1.5, False, 1))

    def test_one_missed_bar_fails_the_run(self):
        times = {'pass 1 32': rounds(2, 2), 'pass 5 32': rounds(1, 1)}
        self.assertEqual(bars.judge(times, 'F16', PLAIN)[1], 1)
        self.assertEqual(bars.judge(times, 'F16', MATRIX)[1], 0)

    def test_a_run_without_a_bar_or_an_interval_shows_nothing(self):
        self.assertEqual(bars.judge({'pass 5 32': rounds(2, 2)}, 'F16', MATRIX)[1], 4)
        cases, code = bars.judge({'pass 1 32': rounds(2)}, 'F16', PLAIN)
        self.assertEqual((cases['pass 1 32']['met'], code), (None, 4))

    def test_a_server_is_held_to_the_peers_by_its_number_of_clients(self):
        def of(tokens, tpot):
            ratio = {'value': tokens, 'low': tokens - 0.1, 'high': tokens + 0.1}
            return {'tokens_per_s': ratio, 'p95_tpot': {'value': tpot, 'low': tpot - 0.1, 'high': tpot + 0.1}}

        cases, code = bars.judge_serving({1: of(1.2, 0.8), 8: of(1.95, 0.5)})
        self.assertEqual(code, 0)
        self.assertEqual(cases['8 clients, tokens_per_s']['limit'], 1.8)
        for missed in ({8: of(1.85, 0.5)}, {1: of(1.2, 0.95)}):
            self.assertEqual(bars.judge_serving(missed)[1], 1, missed)
        alone = {'value': 3.0, 'low': None, 'high': None}
        self.assertEqual(bars.judge_serving({1: {'tokens_per_s': alone, 'p95_tpot': alone}})[1], 4)


if __name__ == '__main__':
    unittest.main()
