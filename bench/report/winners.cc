// SPDX-License-Identifier: Apache-2.0
#include "bench/report/winners.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace outrider {
namespace {

bool clearly_faster(const CellReport& fast, const CellReport& slow) {
  const PairedSpeedup ratio = paired_speedup(slow.samples, fast.samples);
  return ratio.speedup && ratio.speedup->interval && ratio.speedup->interval->low > 1;
}

// Cells of one setting follow each other.
std::vector<std::vector<const CellReport*>> cells_by_setting(std::span<const CellReport> cells) {
  std::vector<std::vector<const CellReport*>> settings;
  for (const CellReport& cell : cells) {
    if (settings.empty() || settings.back().front()->setting != cell.setting) {
      settings.emplace_back();
    }
    settings.back().push_back(&cell);
  }
  return settings;
}

}  // namespace

std::vector<const CellReport*> winners(std::span<const CellReport* const> setting) {
  std::vector<const CellReport*> known;
  for (const CellReport* cell : setting) {
    if (cell->competes() && cell->tokens_per_s) known.push_back(cell);
  }
  std::ranges::stable_sort(known, std::ranges::greater{},
                           [](const CellReport* cell) { return cell->tokens_per_s->value; });
  std::erase_if(known, [&, best = known.empty() ? nullptr : known.front()](const CellReport* cell) {
    return cell != best && clearly_faster(*best, *cell);
  });
  return known;
}

std::string winners_line(std::span<const CellReport> cells) {
  std::map<std::string, std::size_t> alone, shared;
  std::size_t settings = 0, undecided = 0;
  for (const std::vector<const CellReport*>& setting : cells_by_setting(cells)) {
    const std::vector<const CellReport*> best = winners(setting);
    if (best.empty()) continue;
    ++settings;
    if (best.size() == 1) {
      ++alone[best.front()->variant->name];
      continue;
    }
    ++undecided;
    for (const CellReport* cell : best) ++shared[cell->variant->name];
  }
  if (settings == 0) return "No strategy answered.";
  std::string text;
  for (const auto& [name, count] : alone) {
    text += fmt::format("{}{} at {} of {} settings", text.empty() ? "Fastest: " : ", ", name, count,
                        settings);
  }
  if (undecided == 0) return text + ".";
  std::string names;
  for (const auto& [name, count] : shared) {
    names += fmt::format("{}{} at {}", names.empty() ? "" : ", ", name, count);
  }
  return text + fmt::format("{}Too close to call at {} of {} settings, among the fastest: {}.",
                            text.empty() ? "" : ". ", undecided, settings, names);
}

}  // namespace outrider
