// SPDX-License-Identifier: Apache-2.0
#include "bench/cost/cell_cost.h"

#include <algorithm>
#include <cmath>

#include "common/base/json_record.h"

namespace outrider {
namespace {

// Prices are dollars per million tokens. So the sum of price x tokens of one answer, divided by its
// output tokens, is dollars per million output tokens.
double per_output(double sum, const AnswerShape& shape) {
  return sum / shape.output_tokens;
}

double passes(const AnswerShape& shape) {
  return shape.output_tokens / shape.tokens_per_pass;
}

}  // namespace

double plain_cost(const TokenPrices& target, const AnswerShape& shape) {
  return per_output(target.input * shape.input_tokens + target.output * shape.output_tokens, shape);
}

ApiCost edge_cost(const TokenPrices& target, const AnswerShape& shape) {
  const double outputs = target.output * passes(shape);
  ApiCost cost;
  cost.by_the_pass = per_output(target.input * shape.input_tokens + outputs, shape);
  // The first pass reads the prompt. Each later round reads the text so far, with half of the
  // answer on average.
  const double prefix = shape.input_tokens + shape.output_tokens / 2;
  const double later = std::max(passes(shape) * shape.rounds_per_pass - 1, 0.0);
  const double inputs = target.input * shape.input_tokens + later * target.cached_input * prefix +
                        passes(shape) * target.input * shape.drafted_per_pass;
  cost.stateless = per_output(inputs + outputs, shape);
  return cost;
}

double cloud_draft_cost(const TokenPrices& target, const TokenPrices& draft,
                        const AnswerShape& shape) {
  const double drafted = passes(shape) * shape.drafted_per_pass;
  return edge_cost(target, shape).by_the_pass +
         per_output(draft.input * shape.input_tokens + draft.output * drafted, shape);
}

namespace {

constexpr std::array<const char*, kCostKinds> kTitles = {
    "time", "API, stateless", "API, by the pass", "own GPU, shared", "own GPU, reserved",
    "link", "device"};
constexpr double kMillion = 1e6;
constexpr double kMsPerHour = 3.6e6;
constexpr double kMbBytes = 1e6;

AnswerShape shape_of(const AnswerUse& use) {
  return {.input_tokens = use.input_tokens,
          .output_tokens = use.output_tokens,
          .tokens_per_pass = use.output_tokens / use.passes,
          .drafted_per_pass = use.drafted / use.passes,
          .rounds_per_pass = use.rounds / use.passes};
}

// A price that is linear in the passes, split into their part and the rest.
KindCost split(double total, double by_pass) {
  return {.fixed = total - by_pass, .by_pass = by_pass};
}

KindCost stateless(const TokenPrices& target, const AnswerUse& use) {
  const double prefix = use.input_tokens + use.output_tokens / 2;
  const double by_pass = use.rounds * target.cached_input * prefix + use.drafted * target.input +
                         use.passes * target.output;
  return split(edge_cost(target, shape_of(use)).stateless, by_pass / use.output_tokens);
}

KindCost by_the_pass(const TokenPrices& target, const AnswerUse& use) {
  return split(edge_cost(target, shape_of(use)).by_the_pass,
               use.passes * target.output / use.output_tokens);
}

KindCost cloud_draft(const TokenPrices& target, const TokenPrices& draft, const AnswerUse& use) {
  const double by_pass = use.passes * target.output + use.drafted * draft.output;
  return split(cloud_draft_cost(target, draft, shape_of(use)), by_pass / use.output_tokens);
}

// The cost of a million tokens, from what one answer used and a price per unit.
KindCost own(const AnswerUse& use, double price, double fixed, double by_pass) {
  const double each = kMillion * price / use.output_tokens;
  return {.fixed = each * fixed, .by_pass = each * by_pass};
}

}  // namespace

const char* title_of(CostKind kind) {
  return kTitles.at(static_cast<std::size_t>(kind));
}

std::optional<double> CellCost::all(CostKind target) const {
  const auto paid = total(target), link = total(CostKind::kLink), device = total(CostKind::kDevice);
  if (!paid || !link || !device) return std::nullopt;
  return *paid + *link + *device;
}

Json to_json(const CellCost& cost) {
  Json json = Json::object();
  for (const auto& [kind, name] : enum_names<CostKind>) json[name] = write_json(cost.total(kind));
  return json;
}

CellCost cell_cost(const Prices& prices, DraftPlace place, const AnswerUse& use) {
  CellCost cost;
  if (use.output_tokens <= 0 || use.passes <= 0) return cost;
  const auto set = [&](CostKind kind, KindCost one) {
    cost.kinds.at(static_cast<std::size_t>(kind)) = one;
  };
  set(CostKind::kTime, {use.first_ms / use.output_tokens, use.decode_ms / use.output_tokens});
  const double watt_ms = prices.device_watts / 1e3 * prices.dollars_per_kwh / kMsPerHour;
  set(CostKind::kLink, own(use, prices.link_dollars_per_mb / kMbBytes, 0, use.bytes));
  const bool on_strong_edge = place == DraftPlace::kStrongEdge;
  if (place == DraftPlace::kAlone || on_strong_edge) {  // the device computes alone
    const double draft_ms = on_strong_edge ? use.draft_ms : 0;
    set(CostKind::kDevice, own(use, watt_ms, use.first_target_ms, use.target_ms + draft_ms));
    return cost;
  }
  const bool beside = place == DraftPlace::kCloud;
  set(CostKind::kDevice, own(use, watt_ms, 0, beside ? 0 : use.draft_ms));
  if (!beside) {
    set(CostKind::kApiStateless, stateless(prices.api, use));
    set(CostKind::kApiByThePass, by_the_pass(prices.api, use));
  } else if (prices.draft) {
    set(CostKind::kApiByThePass, cloud_draft(prices.api, *prices.draft, use));
  }
  if (!prices.gpu_dollars_per_hour) return cost;
  const double gpu_ms = *prices.gpu_dollars_per_hour / kMsPerHour;
  set(CostKind::kGpuShared,
      own(use, gpu_ms, use.first_target_ms, use.target_ms + (beside ? use.draft_ms : 0)));
  set(CostKind::kGpuReserved, own(use, gpu_ms, use.first_ms, use.decode_ms));
  return cost;
}

std::optional<double> ModelledPair::cost_of_a_round_trip_ms(CostKind kind,
                                                            const Prices& prices) const {
  AnswerUse longer = edge;
  longer.decode_ms += edge.rounds;  // one millisecond each
  const auto more = cell_cost(prices, DraftPlace::kEdge, longer).total(kind);
  const auto now = edge_cost.total(kind);
  if (!more || !now || *more <= *now) return std::nullopt;
  return *more - *now;
}

ModelledPair modelled_pair(const ModelledRound& round, double step_ms, const PaceCurve& pass,
                           const Prices& prices) {
  const double tokens = round.output_tokens, passes = tokens / round.tau;
  const double pass_ms = pass.ms(static_cast<std::int64_t>(std::ceil(round.gamma)) + 1);
  const double drafting = round.gamma * step_ms;
  ModelledPair pair{.round_trip_ms = round.round_trip_ms};
  pair.shape = {.input_tokens = round.input_tokens,
                .output_tokens = tokens,
                .tokens_per_pass = round.tau,
                .drafted_per_pass = round.gamma};
  pair.plain = {.input_tokens = round.input_tokens,
                .output_tokens = tokens,
                .passes = tokens,
                .decode_ms = tokens * pass.ms(1),
                .target_ms = tokens * pass.ms(1),
                .bytes = tokens * round.token_bytes};
  pair.edge = {.input_tokens = round.input_tokens,
               .output_tokens = tokens,
               .passes = passes,
               .rounds = passes,
               .drafted = passes * round.gamma,
               .decode_ms = passes * (round.round_trip_ms + drafting + pass_ms),
               .target_ms = passes * pass_ms,
               .draft_ms = passes * drafting,
               .bytes = passes * round.round_bytes};
  pair.plain_cost = cell_cost(prices, DraftPlace::kEdge, pair.plain);
  pair.edge_cost = cell_cost(prices, DraftPlace::kEdge, pair.edge);
  return pair;
}

}  // namespace outrider
