// The cost of a cell's tokens, by kind, from its answers' figures and a file of prices.
//
//   time          milliseconds of waiting; everything else in dollars per million output tokens
//   api_*         the target at an API (its ways of billing are below)
//   gpu_shared    a GPU of one's own that serves others while this session waits: computing time
//   gpu_reserved  a GPU reserved for this session: total time
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
#include "common/engine/model/emulated/pace.h"
#include "common/serving/prices/prices.h"

namespace outrider {

// The cost of a million output tokens at an API, by two ways of billing.
//
//   by the pass   FSD's table 1: the prefix once, and one output token for each pass
//   stateless     like APIs without sessions: in each round the whole prefix (as cached input) and
//                 the drafted tokens are input again, and one token is output; tokens that the
//                 target writes without drafts continue the same request

// One answer.
struct AnswerShape {
  double input_tokens = 100;
  double output_tokens = 500;
  double tokens_per_pass = 1;   // τ
  double drafted_per_pass = 0;  // γ
  double rounds_per_pass = 1;   // the share of the passes that verify drafted tokens
};

// Dollars per million output tokens. Each is linear in the passes, except for the pass that reads
// the prompt.
struct ApiCost {
  double by_the_pass = 0;
  double stateless = 0;
};

// The target decodes alone, in one request.
double plain_cost(const TokenPrices& target, const AnswerShape& shape);
// The draft runs on the edge.
ApiCost edge_cost(const TokenPrices& target, const AnswerShape& shape);
// The draft runs in the cloud and is billed by its tokens; the target is billed by the pass.
double cloud_draft_cost(const TokenPrices& target, const TokenPrices& draft,
                        const AnswerShape& shape);

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

// The resources that an answer used; the mean over a cell's answers.
struct AnswerUse {
  double input_tokens = 0;
  double output_tokens = 0;
  double passes = 0;           // of the target, with the prompt's
  double rounds = 0;           // passes that verified drafted tokens
  double drafted = 0;          // tokens that they verified
  double first_ms = 0;         // from the request to the first token
  double decode_ms = 0;        // from there to the last one
  double first_target_ms = 0;  // target computing until the first token
  double target_ms = 0;        // target computing after the first token
  double draft_ms = 0;         // draft computing
  double draft_steps = 0;      // draft steps in draft_ms
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

// Per output token. `fixed` does not depend on how many tokens a pass yields.
struct KindCost {
  double fixed = 0;
  double by_pass = 0;

  double total() const { return fixed + by_pass; }
};

struct CellCost {
  std::array<std::optional<KindCost>, kCostKinds> kinds = {};

  // Nothing: it is not billed this way, or has no price.
  const std::optional<KindCost>& of(CostKind kind) const {
    return kinds.at(static_cast<std::size_t>(kind));
  }
  std::optional<double> total(CostKind kind) const {
    return of(kind) ? std::optional(of(kind)->total()) : std::nullopt;
  }
  // The target's cost by this way of billing, with link and device.
  std::optional<double> all(CostKind target) const;
};

// By kind; null: no figure.
Json to_json(const CellCost& cost);

CellCost cell_cost(const Prices& prices, DraftPlace place, const AnswerUse& use);

// Answers by the latency law of the FSD paper: plain decoding, and drafting on the edge that waits
// for each round.
struct ModelledRound {
  double input_tokens = 100;
  double output_tokens = 500;
  double tau = 2.5;
  double gamma = 4;
  double round_trip_ms = 0;
  // Bytes both ways of a round, and of a streamed token of plain decoding: those of the demo pair
  // on GSM8K's prompts at γ = 4.
  double round_bytes = 141;
  double token_bytes = 62;
};

struct ModelledPair {
  double round_trip_ms = 0;
  AnswerShape shape = {};  // of the drafted answer
  AnswerUse plain = {}, edge = {};
  CellCost plain_cost = {}, edge_cost = {};

  // The cost that a millisecond of round trip adds to a drafted token; nothing for kinds that are
  // not paid by time.
  std::optional<double> cost_of_a_round_trip_ms(CostKind kind, const Prices& prices) const;
};

// step_ms: T_p of one row. pass: T_q by rows.
ModelledPair modelled_pair(const ModelledRound& round, double step_ms, const PaceCurve& pass,
                           const Prices& prices);

}  // namespace outrider
