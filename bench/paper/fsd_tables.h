// The printed tables 1, 2, 5, 6, 7 and 8 of the FSD paper ("Fast and Cost-effective Speculative
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

// Table 2: the training of early exits. The sizes of the targets are public, and not in the paper.
struct PaperExits {
  std::string_view model;
  int exits = 0;
  double parameters = 0;  // of all exits, in millions
  double percent = 0;     // of all parameters, those of the exits included
  double gpu_hours = 0;
  int layers = 0;
  int hidden_size = 0;
  double model_parameters = 0;  // in millions, without exits
};
std::span<const PaperExits> paper_table2();
// Parameters of an exit for each unit of the hidden state. The paper does not say what its exits
// are made of; this fits table 2's first three rows, and the fourth with as many exits as they
// have.
inline constexpr double kParametersPerUnit = 792;

// Tables 5 and 8a, at a pace of bench/paces, which has their times.
struct PaperSystem {
  std::string_view pace;
  double latency_ratio = 0;  // c = T_p / T_q
  int threads = 0;           // "Num EE Threads"
  double gpu_memory_gb = 0;
};
std::span<const PaperSystem> paper_table5();  // table 8a last

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
  double sync_ms = 0;      // T_r, which the paper does not print
};
// (2 T_c + n T_q) / n over (2 T_c + gamma T_p + T_q) / tau
double formula_ar_to_sd(const PaperTimes& times, double tau, double tokens);
// (2 T_c + gamma T_p + T_q) / (2 T_c + r gamma T_p + (1 - r) T_r + T_q)
double formula_sd_to_fsd(const PaperTimes& times, double miss_rate);
// The T_r at which table 4 gives this speed-up from SD to FSD. Negative: no T_r does.
double implied_sync_ms(const PaperTimes& times, double miss_rate, double sd_to_fsd);
// The threads that reports can keep busy, if each of a pass's exits holds one for gamma T_p: more
// can change nothing.
double threads_in_use(const PaperTimes& times, int layers);
// (gamma c + 1) / (r gamma c + 1)
double equation9(double gamma, double latency_ratio, double miss_rate);
// The r at which equation 9 gives this speed-up; nothing if none from 0 to 1 does.
std::optional<double> equation9_contour(double gamma, double latency_ratio, double speedup);

// Contradictions within the FSD paper, computed from its printed figures.

// The contradictions that concern a table or figure of `outrider-bench reproduce` ("fsd-table6"),
// one sentence each; empty: none is known.
std::vector<std::string> contradictions_of(std::string_view what);

}  // namespace outrider
