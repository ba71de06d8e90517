// Points of a run's report for the latency law's maps: what devices and link were, what the law
// says of each strategy there, and how fast each was.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/paper/strategy_map.h"
#include "common/base/json.h"
#include "common/base/status.h"

namespace outrider {

struct MeasuredSpeed {
  std::string strategy;
  double measured_ms = 0;        // per token
  std::optional<double> law_ms;  // nothing: not one of the map's strategies
};

// One setting with plain decoding and plain speculation.
struct MeasuredPoint {
  std::string setting;
  int gamma = 0;  // of its plain speculation
  MapPoint at;    // with two points of the target's pace: 1 row, and γ + 1
  std::vector<MeasuredSpeed> speeds;
  std::optional<double> miss_rate;    // r of fsd
  std::optional<double> fsd_over_sd;  // at the same γ

  double latency_ratio() const { return at.step_ms / at.pass.ms(gamma + 1); }  // c
};

// Of a report that report_json() made. hit_rate: where neither mirror nor fsd says one. DATA_LOSS
// for a report that lacks a field.
Result<std::vector<MeasuredPoint>> measured_points(const Json& report, const std::string& name,
                                                   double hit_rate);

}  // namespace outrider
