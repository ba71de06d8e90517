// Where drafting on the edge stops paying, compared with plain decoding over the same link, for
// each kind of cost.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/cost/cell_cost.h"
#include "common/base/json.h"

namespace outrider {

// The tokens that a pass must yield so that drafting costs no more than plain decoding.
struct NeededTokens {
  double tokens_per_pass = 1;
  // The acceptance probability per drafted token that this needs. 0: any will do. Nothing: even
  // fully accepted rounds do not yield enough.
  std::optional<double> acceptance;
};
// Nothing if both plain decoding and drafting cost nothing.
std::optional<NeededTokens> needed_tokens(const KindCost& cost, const AnswerUse& use,
                                          const KindCost& plain);

// The acceptance probability of each drafted token, from what the passes yielded; nothing if none
// was drafted.
std::optional<double> acceptance_now(const AnswerUse& use);

// The longest round trip at which drafting costs no more than plain decoding, given its `cost` at
// `round_trip_ms` and `per_ms` more for each further millisecond; nothing: it costs more at each.
std::optional<double> break_even_round_trip_ms(double cost, double plain, double round_trip_ms,
                                               double per_ms);

// One cell of a run with its costs.
struct CostedCell {
  std::string setting;  // its plain decoding is the reference
  std::string device;   // whose round trips are compared with each other
  std::string variant;
  double round_trip_ms = 0;
  DraftPlace place = DraftPlace::kEdge;
  AnswerUse use;
  CellCost cost;
};

// At which of the measured round trips a strategy pays. A saving of less than a hundredth counts as
// none: where speculation turns itself off, costs differ from plain decoding's only by noise.
struct PaysUpTo {
  std::size_t pays = 0;
  std::size_t of = 0;
  // Where it stops paying, interpolated between two round trips. Nothing: it pays at all of them,
  // at none, or not at the shortest ones only.
  std::optional<double> round_trip_ms;

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("pays", self.pays);
    field("of", self.of);
    field("up_to_round_trip_ms", self.round_trip_ms);
  }
};
struct CostRatio {
  double round_trip_ms = 0;
  double over_plain = 1;
};
PaysUpTo pays_up_to(std::vector<CostRatio> ratios);
// "up to 83 ms", "at all 12", "at none of 12", "at 3 of 12".
std::string to_string(const PaysUpTo& pays);

struct KindBreakEven {
  PaysUpTo round_trips;
  // The smallest and the largest acceptance that these round trips need; nothing if at one of them
  // no acceptance suffices.
  std::optional<double> least_needed, most_needed;

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("round_trips", self.round_trips);
    field("least_needed_acceptance", self.least_needed);
    field("most_needed_acceptance", self.most_needed);
  }
};
// "up to 83 ms; from 0.31"
std::string to_string(const KindBreakEven& kind);

// For a strategy with a draft on the edge, over the round trips of a device.
struct BreakEven {
  std::string device;
  std::string variant;
  std::optional<double> acceptance = {};  // measured, the mean over round trips
  std::array<std::optional<KindBreakEven>, kCostKinds> kinds = {};  // nothing: not billed
};

Json to_json(const BreakEven& found);

// Cells without plain decoding beside them are left out. plain: its variant.
std::vector<BreakEven> break_evens(std::span<const CostedCell> cells, const std::string& plain);

}  // namespace outrider
