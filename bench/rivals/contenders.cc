// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/contenders.h"

#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "common/cli/nearest.h"

namespace outrider {
namespace {

constexpr int kFirstBest = 2, kLastBest = 8;  // draft lengths of which the best is taken
constexpr int kSsdWorkers = 16;               // rows of one draft step: all outcomes in one batch

struct Contender {
  std::string_view name;
  Strategy strategy;
  enum class Kind { kPlain, kBest, kCloud, kAlone, kAblation } kind = Kind::kPlain;
  bool exits = true;    // ablations
  bool fan_out = true;  // ablations
};
using Kind = Contender::Kind;

constexpr std::array<Contender, 16> kContenders = {
    {{"ar", Strategy::kAr},
     {"sd", Strategy::kSd},
     {"fsd", Strategy::kFsd},
     {"mirror", Strategy::kMirror},
     {"specedge", Strategy::kSpecEdge},
     {"ssd", Strategy::kSsd},
     {"picospec", Strategy::kPicoSpec},
     {"sd-best", Strategy::kSd, Kind::kBest},
     {"fsd-best", Strategy::kFsd, Kind::kBest},
     {"specedge-best", Strategy::kSpecEdge, Kind::kBest},
     {"ssd-best", Strategy::kSsd, Kind::kBest},
     {"sd-cloud", Strategy::kSd, Kind::kCloud},
     {"edge-only", Strategy::kAr, Kind::kAlone},
     {"mirror-plain", Strategy::kMirror, Kind::kAblation, false, false},
     {"mirror-exits", Strategy::kMirror, Kind::kAblation, true, false},
     {"mirror-fanout", Strategy::kMirror, Kind::kAblation, false, true}}};

GridVariant base_variant(const Contender& contender) {
  GridVariant variant = variant_of(contender.strategy);
  variant.name = contender.name;
  if (contender.strategy == Strategy::kSsd) variant.workers = kSsdWorkers;
  switch (contender.kind) {
    case Kind::kPlain:
    case Kind::kBest:
      break;
    case Kind::kCloud:
      variant.place = DraftPlace::kCloud;
      break;
    case Kind::kAlone:
      variant.place = DraftPlace::kAlone;
      break;
    case Kind::kAblation:
      variant.without_exits = !contender.exits;
      variant.uses_exits = contender.exits;
      if (!contender.fan_out) variant.fan_out = 1;
      break;
  }
  return variant;
}

std::vector<GridVariant> variants_of(const Contender& contender, const std::vector<int>& gammas) {
  const GridVariant base = base_variant(contender);
  std::vector<GridVariant> variants;
  const auto add = [&](int gamma, std::string name) {
    variants.push_back(base);
    variants.back().gamma = gamma;
    variants.back().name = std::move(name);
  };
  if (contender.kind == Kind::kBest) {
    for (int gamma = kFirstBest; gamma <= kLastBest; ++gamma) {
      add(gamma, std::string(name_of(contender.strategy)) + "-best γ=" + std::to_string(gamma));
      variants.back().best_of = contender.name;
    }
  } else if (contender.strategy == Strategy::kAr) {
    add(0, base.name);
  } else if (gammas.empty()) {
    add(default_draft_length(contender.strategy), base.name);
  } else {
    for (const int gamma : gammas) {
      add(gamma, gammas.size() == 1 ? base.name : base.name + " γ=" + std::to_string(gamma));
    }
  }
  return variants;
}

const Contender* find_contender(const std::string& name) {
  for (const Contender& contender : kContenders) {
    if (contender.name == name) return &contender;
  }
  return nullptr;
}

Status unknown_contender(const std::string& name) {
  std::string all;
  for (const std::string& one : contender_names()) all += " " + one;
  const std::string nearest = nearest_match(name, contender_names());
  return invalid_argument("--strategy " + name + ": not known; there are" + all + ", and all." +
                          (nearest.empty() ? "" : " Did you mean '" + nearest + "'?"));
}

}  // namespace

std::vector<std::string> contender_names() {
  std::vector<std::string> names;
  for (const Contender& contender : kContenders) names.emplace_back(contender.name);
  return names;
}

Result<std::vector<GridVariant>> contenders(const std::vector<std::string>& names,
                                            const std::vector<int>& gammas) {
  std::vector<GridVariant> variants;
  std::set<std::string> seen;
  const auto add = [&](const Contender& contender) -> Status {
    if (!seen.insert(std::string(contender.name)).second) {
      return invalid_argument("--strategy " + std::string(contender.name) + " stands twice");
    }
    for (GridVariant& variant : variants_of(contender, gammas)) {
      variants.push_back(std::move(variant));
    }
    return {};
  };
  for (const std::string& name : names) {
    if (name == "all") {
      for (const Contender& contender : kContenders) {
        if (contender.kind != Kind::kAblation) OUTRIDER_RETURN_IF_ERROR(add(contender));
      }
      continue;
    }
    const Contender* contender = find_contender(name);
    if (contender == nullptr) return unknown_contender(name);
    OUTRIDER_RETURN_IF_ERROR(add(*contender));
  }
  if (variants.empty()) return invalid_argument("--strategy is empty. Remedy: name one, or all");
  return variants;
}

}  // namespace outrider
