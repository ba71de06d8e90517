// SPDX-License-Identifier: Apache-2.0
#include "bench/cost/cell_cost.h"

#include "bench/cost/token_cost.h"
#include "common/base/json_record.h"

namespace outrider {
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

// A price that is linear in the passes, split into what they cost and the rest.
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

// Of a million tokens, from what one answer took at a price for each unit of it.
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
  if (place == DraftPlace::kAlone) {  // what computes is on the device
    set(CostKind::kDevice, own(use, watt_ms, use.first_target_ms, use.target_ms));
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

}  // namespace outrider
