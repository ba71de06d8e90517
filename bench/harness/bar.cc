// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/bar.h"

#include <fmt/core.h>

#include <cmath>

namespace outrider {
namespace {

const char* name_of(Bar::Side side) {
  switch (side) {
    case Bar::Side::kAtLeast:
      return "at least";
    case Bar::Side::kAtMost:
      return "at most";
    case Bar::Side::kWithin:
      break;
  }
  return "within";
}

}  // namespace

double Bar::near_end() const {
  const Interval interval = value.interval.value_or(Interval{value.value, value.value});
  switch (side) {
    case Side::kAtLeast:
      return interval.low;
    case Side::kAtMost:
      return interval.high;
    case Side::kWithin:
      break;
  }
  return std::abs(interval.low) > std::abs(interval.high) ? interval.low : interval.high;
}

bool Bar::met() const {
  if (side == Side::kAtLeast) return near_end() >= limit;
  return (side == Side::kWithin ? std::abs(near_end()) : near_end()) <= limit;
}

std::string Bar::to_string() const {
  std::string text = fmt::format("{}: {:.4g}", name, value.value);
  if (value.interval) {
    text += fmt::format(" [{:.4g}, {:.4g}]", value.interval->low, value.interval->high);
  }
  return text + fmt::format(", {} {:.4g}: {}", name_of(side), limit, met() ? "met" : "NOT MET");
}

Json to_json(const Estimate& estimate) {
  Json json = {{"value", estimate.value}, {"low", Json()}, {"high", Json()}};
  if (estimate.interval) {
    json["low"] = estimate.interval->low;
    json["high"] = estimate.interval->high;
  }
  return json;
}

Json to_json(std::span<const Bar> bars) {
  Json json = Json::array();
  for (const Bar& bar : bars) {
    Json one = to_json(bar.value);
    one.update({{"name", bar.name},
                {"side", name_of(bar.side)},
                {"limit", bar.limit},
                {"met", bar.met()}});
    json.push_back(std::move(one));
  }
  return json;
}

}  // namespace outrider
