// What a token of a cell costs, kind by kind, from what its answers took and a file of prices.
//
//   time          milliseconds of waiting; everything else in dollars per million output tokens
//   api_*         the target at an API (token_cost.h says how each bills)
//   gpu_shared    a GPU of one's own that works for others while this session waits: its computing
//   gpu_reserved  a GPU that waits for this session alone: all of its time
//   link, device  bytes both ways; the device's power while it drafts
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "bench/harness/grid_plan.h"
#include "common/base/enum_names.h"
#include "common/base/json.h"
#include "common/prices/prices.h"

namespace outrider {

enum class CostKind : std::uint8_t {
  kTime,
  kApiStateless,
  kApiByThePass,
  kGpuShared,
  kGpuReserved,
  kLink,
  kDevice
};

template <>
inline constexpr auto enum_names<CostKind> =
    std::to_array<EnumName<CostKind>>({{CostKind::kTime, "time"},
                                       {CostKind::kApiStateless, "api_stateless"},
                                       {CostKind::kApiByThePass, "api_by_the_pass"},
                                       {CostKind::kGpuShared, "gpu_shared"},
                                       {CostKind::kGpuReserved, "gpu_reserved"},
                                       {CostKind::kLink, "link"},
                                       {CostKind::kDevice, "device"}});

// For people.
const char* title_of(CostKind kind);

inline constexpr std::size_t kCostKinds = enum_names<CostKind>.size();

// What an answer took, the mean of a cell's.
struct AnswerUse {
  double input_tokens = 0;
  double output_tokens = 0;
  double passes = 0;           // of the target, the prompt's included
  double rounds = 0;           // of these, that verified drafted tokens
  double drafted = 0;          // tokens that they verified
  double first_ms = 0;         // from the request to the first token
  double decode_ms = 0;        // from there to the last one
  double first_target_ms = 0;  // the target's computing until the first token
  double target_ms = 0;        // and after it
  double draft_ms = 0;         // of the draft
  double draft_steps = 0;      // in that time
  double bytes = 0;            // both ways

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("input_tokens", self.input_tokens);
    field("output_tokens", self.output_tokens);
    field("passes", self.passes);
    field("rounds", self.rounds);
    field("drafted", self.drafted);
    field("first_ms", self.first_ms);
    field("decode_ms", self.decode_ms);
    field("first_target_ms", self.first_target_ms);
    field("target_ms", self.target_ms);
    field("draft_ms", self.draft_ms);
    field("draft_steps", self.draft_steps);
    field("bytes", self.bytes);
  }
};

// Per output token. The first part stays as it is however many tokens a pass brings.
struct KindCost {
  double fixed = 0;
  double by_pass = 0;

  double total() const { return fixed + by_pass; }
};

struct CellCost {
  std::array<std::optional<KindCost>, kCostKinds> kinds = {};

  // Nothing: it is not billed so, or has no price.
  const std::optional<KindCost>& of(CostKind kind) const {
    return kinds.at(static_cast<std::size_t>(kind));
  }
  std::optional<double> total(CostKind kind) const {
    return of(kind) ? std::optional(of(kind)->total()) : std::nullopt;
  }
  // The target by this way of paying for it, with link and device.
  std::optional<double> all(CostKind target) const;
};

// By kinds; null for nothing.
Json to_json(const CellCost& cost);

CellCost cell_cost(const Prices& prices, DraftPlace place, const AnswerUse& use);

}  // namespace outrider
