// The printed tables 1, 6, 7 and 8 of the FSD paper ("Fast and Cost-effective Speculative
// Edge-Cloud Decoding with Early Exits"), for `outrider-bench reproduce`. Times are in bench/paces.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/serving/prices/prices.h"

namespace outrider {

// Table 1: a million requests of 100 input and 500 output tokens, gamma 4, 2.5 tokens a round.
struct PaperCost {
  std::string_view provider;
  std::string_view pair;
  TokenPrices draft;
  TokenPrices target;
  double cloud_ar = 0;  // dollars
  double cloud_sd = 0;
  double edge_sd = 0;
};
std::span<const PaperCost> paper_table1();

// Table 6, one data set at one pace of bench/paces; and table 8, as "Unitree Go2".
struct PaperSpeed {
  std::string_view data_set;
  std::string_view pace;
  double ar_to_sd = 0;
  double sd_to_fsd = 0;
  double tau = 0;
  double miss_rate = 0;
  double mean_exit = 0;
};
std::span<const PaperSpeed> paper_table6();
const PaperSpeed& paper_table8();

// Table 7: the misses, in percent, with 3, 5 and 10 threads.
struct PaperQueues {
  std::string_view client;
  std::string_view server;
  double misses[3];
};
std::span<const PaperQueues> paper_table7();

// Table 4 and equation 9, from printed inputs.
struct PaperTimes {
  double drafting_ms = 0;  // gamma T_p
  double pass_ms = 0;      // T_q
  double one_way_ms = 0;   // T_c
};
// (2 T_c + n T_q) / n over (2 T_c + gamma T_p + T_q) / tau
double formula_ar_to_sd(const PaperTimes& times, double tau, double tokens);
// (2 T_c + gamma T_p + T_q) / (2 T_c + r gamma T_p + T_q); T_r is not printed: 0.
double formula_sd_to_fsd(const PaperTimes& times, double miss_rate);
// (gamma c + 1) / (r gamma c + 1)
double equation9(double gamma, double latency_ratio, double miss_rate);
// The r at which equation 9 gives this speed-up; nothing if none from 0 to 1 does.
std::optional<double> equation9_contour(double gamma, double latency_ratio, double speedup);

// Contradictions within the FSD paper, computed from its printed figures.

// The contradictions that concern a table or figure of `outrider-bench reproduce` ("fsd-table6"),
// one sentence each; empty: none is known.
std::vector<std::string> contradictions_of(std::string_view what);

}  // namespace outrider
