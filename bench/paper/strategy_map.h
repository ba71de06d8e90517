// Which strategy is the fastest by the latency law, with each drafted token's chance to stand the
// same everywhere and one share of rounds that are ready ahead: a map to orient oneself by.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "bench/harness/law.h"
#include "common/model/emulated/pace.h"

namespace outrider {

// Where the law is asked. T_p, T_q and T_c are those of the FSD paper.
struct MapPoint {
  double step_ms = 0;        // T_p, on the edge
  double cloud_step_ms = 0;  // the same beside the target
  PaceCurve pass;            // T_q by rows
  double one_way_ms = 0;     // T_c
  double acceptance = 0;
  double hit_rate = 0;  // of rounds drafted, or sent, before their verdict
};

// A strategy at its best draft length.
struct MapChoice {
  const char* name = "ar";
  char letter = '.';
  double ms = 0;  // per token
  int gamma = 0;
};

// ar, sd, fsd, mirror and, last, sd-cloud: the draft beside the target, streamed as plain decoding
// is, (γ T_p' + T_q) / τ. Draft lengths from 1 to max_gamma.
std::vector<MapChoice> map_choices(const MapPoint& point, int max_gamma);

// The fastest; the first of equals. draft_in_cloud: whether sd-cloud takes part.
MapChoice fastest_at(const MapPoint& point, int max_gamma, bool draft_in_cloud);

// Figure 1 of the FSD paper: where the time of a token goes.
struct TokenParts {
  const char* name = "";
  double drafting_ms = 0;
  double link_ms = 0;
  double target_ms = 0;

  double total_ms() const { return drafting_ms + link_ms + target_ms; }
};
// (a) cloud decoding, (b) speculation in the cloud, (c) on the edge, (d) with pre-drafting, and
// ours. step_ms: of the draft beside the target; the rest are the law's terms of rounds.
std::vector<TokenParts> figure1_parts(const LawTerms& round, double plain_pass_ms,
                                      double cloud_step_ms);

}  // namespace outrider
