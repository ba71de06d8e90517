// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/contenders.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "bench/harness/summary.h"
#include "bench/lab/rivals.h"
#include "common/serving/cli/nearest.h"

namespace outrider {
namespace {

constexpr int kFirstBest = 2, kLastBest = 8;  // draft lengths of which the best is taken
constexpr int kSsdWorkers = 16;               // rows of one draft step: all outcomes in one batch

struct Contender {
  std::string_view name;
  std::string_view strategy;
  DraftPlace place = DraftPlace::kEdge;
  bool best = false;  // of its draft lengths, setting by setting
  bool blocks = false;
  DraftSource server_drafts = DraftSource::kNone;
  bool alone = false;  // GridVariant::server_draft_alone
  bool exits = true;
  bool fan_out = true;
};

constexpr std::array<Contender, 26> kContenders = {
    {{"ar", "ar"},
     {"sd", "sd"},
     {"fsd", "fsd"},
     {"mirror", "mirror"},
     {"specedge", "specedge"},
     {"ssd", "ssd"},
     {"picospec", "picospec"},
     {.name = "sd-best", .strategy = "sd", .best = true},
     {.name = "fsd-best", .strategy = "fsd", .best = true},
     {.name = "specedge-best", .strategy = "specedge", .best = true},
     {.name = "ssd-best", .strategy = "ssd", .best = true},
     {"sd-cloud", "sd", DraftPlace::kCloud},
     {"edge-only", "ar", DraftPlace::kAlone},
     {"sd-cloud-best", "sd", DraftPlace::kCloud, true},
     {"block-cloud", "sd", DraftPlace::kCloud, true, true},
     {"mirror-sd", "mirror", DraftPlace::kCloud},
     {"edge-strong", "sd", DraftPlace::kStrongEdge, true},
     {.name = "ar-server", .strategy = "ar", .server_drafts = DraftSource::kBoth},
     {.name = "mirror-server", .strategy = "mirror", .server_drafts = DraftSource::kBoth},
     {.name = "ar-server-model", .strategy = "ar", .server_drafts = DraftSource::kModel},
     {.name = "ar-server-lookup", .strategy = "ar", .server_drafts = DraftSource::kLookup},
     {.name = "ar-server-alone",
      .strategy = "ar",
      .server_drafts = DraftSource::kBoth,
      .alone = true},
     {.name = "mirror-server-alone",
      .strategy = "mirror",
      .server_drafts = DraftSource::kBoth,
      .alone = true},
     {.name = "mirror-plain", .strategy = "mirror", .exits = false, .fan_out = false},
     {.name = "mirror-exits", .strategy = "mirror", .fan_out = false},
     {.name = "mirror-fanout", .strategy = "mirror", .exits = false}}};
constexpr std::size_t kInAll = 13;  // the first ones

StrategyChoice strategy_of(const Contender& contender) {
  if (const auto own = parse_name<Strategy>(contender.strategy)) return *own;
  return StrategyChoice(*find_rival(contender.strategy));
}

GridVariant base_variant(const Contender& contender) {
  GridVariant variant = variant_of(strategy_of(contender));
  variant.name = contender.name;
  variant.place = contender.place;
  variant.drafts_blocks = contender.blocks;
  variant.server_drafts = contender.server_drafts;
  variant.server_draft_alone = contender.alone;
  variant.without_exits = !contender.exits;
  variant.uses_exits = variant.uses_exits && contender.exits;
  if (contender.strategy == "ssd") variant.workers = kSsdWorkers;
  if (!contender.fan_out) variant.fan_out = 1;
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
  if (contender.best) {
    for (int gamma = kFirstBest; gamma <= kLastBest; ++gamma) {
      add(gamma, base.name + " γ=" + std::to_string(gamma));
      variants.back().best_of = contender.name;
    }
  } else if (base.strategy == Strategy::kAr) {
    add(0, base.name);
  } else if (gammas.empty()) {
    add(default_draft_length(base.strategy), base.name);
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

// NAME=COMMAND.
Result<std::vector<GridVariant>> outside_variants(const std::string& text,
                                                  const std::vector<int>& gammas) {
  const std::string name = text.substr(0, text.find('='));
  const std::string command = text.substr(name.size() + 1);
  const bool is_word = !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (!is_word || find_contender(name) != nullptr || name == "all") {
    return invalid_argument("--strategy " + text + ": '" + name +
                            (is_word ? "' is the name of another" : "' is no name") +
                            ". Remedy: NAME=COMMAND with a name of a-z, 0-9 and -");
  }
  if (command.empty()) {
    return invalid_argument("--strategy " + text + " names no command. Remedy: " + name +
                            "=\"python3 FILE\"");
  }
  const auto program = std::make_shared<OutsideProgram>(name, command);
  GridVariant base = variant_of(StrategyChoice(program->guest()));
  base.outside = program;
  std::vector<GridVariant> variants;
  for (const int gamma : gammas.empty() ? std::vector<int>{OutsidePlan{}.length} : gammas) {
    variants.push_back(base);
    variants.back().gamma = gamma;
    if (gammas.size() > 1) variants.back().name += " γ=" + std::to_string(gamma);
  }
  return variants;
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
      for (const Contender& contender : std::span(kContenders).first(kInAll)) {
        OUTRIDER_RETURN_IF_ERROR(add(contender));
      }
      continue;
    }
    if (name.find('=') != std::string::npos) {
      OUTRIDER_ASSIGN_OR_RETURN(const std::vector<GridVariant> theirs,
                                outside_variants(name, gammas));
      if (!seen.insert(theirs.front().outside->guest().name).second) {
        return invalid_argument("--strategy " + name + " stands twice");
      }
      variants.insert(variants.end(), theirs.begin(), theirs.end());
      continue;
    }
    const Contender* contender = find_contender(name);
    if (contender == nullptr) return unknown_contender(name);
    OUTRIDER_RETURN_IF_ERROR(add(*contender));
  }
  if (variants.empty()) return invalid_argument("--strategy is empty. Remedy: name one, or all");
  return variants;
}

namespace {

// The old plan's variants from which a variant of the new plan may come: one, or those of a group.
using Group = std::vector<std::size_t>;

std::vector<Group> groups_of(const std::vector<GridVariant>& variants) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const bool joins =
        i > 0 && !variants[i].best_of.empty() && variants[i].best_of == variants[i - 1].best_of;
    if (!joins) groups.emplace_back();
    groups.back().push_back(i);
  }
  return groups;
}

std::optional<double> time_per_token(const GridCell& cell) {
  if (cell.mismatches > 0) return std::nullopt;
  return sum_of(cell.answers).tpot_ms();
}

// One wrong text makes the whole contender invalid, so it takes the place of the best.
std::size_t best_of(const Group& group, const GridCell* cells) {
  std::size_t best = group.front();
  for (const std::size_t variant : group) {
    if (cells[variant].mismatches > 0) return variant;
    const std::optional<double> time = time_per_token(cells[variant]);
    const std::optional<double> least = time_per_token(cells[best]);
    if (time && (!least || *time < *least)) best = variant;
  }
  return best;
}

}  // namespace

BestOfGroups keep_best(const GridPlan& plan, GridResult result) {
  const std::vector<Group> groups = groups_of(plan.variants);
  BestOfGroups out{.plan = plan, .result = {}};
  out.plan.variants.clear();
  for (const Group& group : groups) {
    GridVariant variant = plan.variants[group.front()];
    if (!variant.best_of.empty()) variant.name = variant.best_of;
    out.plan.variants.push_back(std::move(variant));
  }
  // [setting][variant of the old plan]: the variant of the new plan, or nothing
  std::vector<std::vector<std::optional<std::size_t>>> places;
  std::vector<GridCell> cells;
  for (std::size_t setting = 0; setting < plan.settings.size(); ++setting) {
    const GridCell* at = result.cells.data() + setting * plan.variants.size();
    places.emplace_back(plan.variants.size());
    for (std::size_t group = 0; group < groups.size(); ++group) {
      const std::size_t best = best_of(groups[group], at);
      places.back()[best] = group;
      cells.push_back(at[best]);
      cells.back().variant = out.plan.variants[group].name;
    }
  }
  std::vector<FinishedAnswer> finished;
  for (FinishedAnswer& answer : result.finished) {
    const std::optional<std::size_t> place = places[answer.job.setting][answer.job.variant];
    if (!place) continue;
    answer.job.variant = *place;
    finished.push_back(std::move(answer));
  }
  out.result = std::move(result);
  out.result.cells = std::move(cells);
  out.result.finished = std::move(finished);
  return out;
}

namespace {

constexpr std::array kWaiting = {"sd-best", "fsd-best", "specedge-best", "ssd-best"};
constexpr double kAheadOfWaiting = 1.1;
constexpr double kNotBehind = 1.0;

// The fastest of the variants; empty if one of them did not run, or none answered.
std::string fastest_waiting(const GridResult& result, const std::string& setting) {
  std::string best;
  std::optional<double> least;
  for (const char* name : kWaiting) {
    const GridCell* cell = result.find(setting, name);
    if (cell == nullptr) return "";
    const std::optional<double> time = sum_of(cell->answers).tpot_ms();
    if (cell->mismatches > 0 || !time || (least && *time >= *least)) continue;
    least = time;
    best = name;
  }
  return best;
}

}  // namespace

std::vector<Bar> rival_bars(const GridResult& result, const std::vector<PaperPace>& paces) {
  std::vector<Bar> bars;
  for (const PaperPace& pace : paces) {
    if (pace.group != PaceGroup::kTables5And8 || pace.times != PassTimes::kMeasured) continue;
    const auto add = [&](const std::string& rival, const std::string& what, double limit) {
      if (rival.empty()) return;
      const std::optional<Estimate> ratio = speedup_at(result, pace.name, "mirror", rival);
      if (ratio) bars.push_back({"mirror over " + what + " at " + pace.name, *ratio, limit});
    };
    const std::string fastest = fastest_waiting(result, pace.name);
    add(fastest, fastest + ", the fastest rival that waits,", kAheadOfWaiting);
    add("picospec", "picospec", kNotBehind);
  }
  return bars;
}

}  // namespace outrider
