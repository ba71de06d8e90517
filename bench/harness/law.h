// The latency law of the FSD paper (table 4, eq. 9), per token after the first, with our term for
// mirrored sends (docs/latency-law.md derives it):
//
//   ar      T_q
//   sd      (2 T_c + r γ T_p + T_q) / τ                r: share of the drafting left by a verdict,
//   fsd     (2 T_c + r γ T_p + T_q) / τ                   of sd all but what the opening hides
//   mirror  (w 2 T_c + s T_l + min(r, w) γ T_p + T_q) / τ
//                                                      w = 1 - s - e: share of passes waited for,
//                                                      s: whose round left before the verdict,
//                                                      T_l: how late it came, 0 if before the pass
//                                                      ended, e: that went on without, of one row
//
// T_q is the emulated time: the mean over the run's own passes of what their rows and exits should
// take. So a server that is slower than its pace shows in the residual. The
// paper's (1 - r) T_r is left out: here a hit's wait for the rest of its round is a part of r.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/harness/grid.h"
#include "bench/paces/paces.h"
#include "bench/stats/statistics.h"
#include "common/base/json.h"

namespace outrider {

// The tokens that a round yields if each drafted token is accepted with the same probability: τ = 1
// + a + .. + a^γ. γ may be the mean over rounds of several lengths.

double tokens_per_round(double acceptance, double gamma);

// The probability at which rounds of gamma tokens yield tau; 0 below τ = 1, 1 above γ + 1.
double acceptance_of_tau(double tau, double gamma);

struct LawTerms {
  double step_ms = 0;     // T_p, of one row
  double pass_ms = 0;     // T_q as emulated; unpaced: as measured
  double one_way_ms = 0;  // T_c
  double gamma = 0;       // drafted tokens wanted per pass; an answer's last rounds are shorter
  double tau = 1;
  double left_rate = 1;    // r
  double synced_rate = 0;  // s
  double late_ms = 0;      // T_l, the mean over those passes
  double alone_rate = 0;   // e

  double waited_rate() const;  // w
};

// Milliseconds per token.
double law_ms(Strategy strategy, const LawTerms& terms);

struct LawRow {
  std::string setting;
  std::string variant;
  StrategyChoice strategy = Strategy::kAr;
  LawTerms terms;
  double measured_ms = 0;
  double law_ms = 0;
  Estimate residual;  // the share of the measured time that the law does not explain
};

// A pace with the cost of exits.
struct LawPace {
  PaperPace pace;
  double exit_cost = 1;
};

// The mean time that the passes of these answers should take; nothing if unpaced.
std::optional<double> asked_pass_ms(const AnswerFigures& figures, const PaceCurve& pass,
                                    double exit_cost);

// The law with a cell's own figures; nothing if the figures of its strategy are not known.
std::optional<LawRow> law_of(const GridCell& cell, const LawPace& pace);

// The time that pre-drafting saved per token compared with plain speculation, beside the law's
// prediction with the run's own r, where late hits count with their lateness: (r_sd - r_fsd) γ T_p
// / τ. Nothing if no more was drafted ahead (a server without exits).
struct FsdSaving {
  double measured_ms = 0;
  double law_ms = 0;
  Estimate share;  // the measured saving over the predicted one
};
std::optional<FsdSaving> fsd_saving(const GridCell& sd, const GridCell& fsd, const LawPace& pace);

Json to_json(const LawRow& row);
std::string law_table(const std::vector<LawRow>& rows);

}  // namespace outrider
