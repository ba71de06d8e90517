// SPDX-License-Identifier: Apache-2.0
#include "bench/report/cost_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// In dollars; the time is in every report.
constexpr CostKind kBilled[] = {CostKind::kApiStateless, CostKind::kApiByThePass,
                                CostKind::kGpuShared,    CostKind::kGpuReserved,
                                CostKind::kLink,         CostKind::kDevice};

std::string plain_of(const RunReport& report) {
  std::vector<GridVariant> variants;
  for (const CellReport& cell : report.cells) variants.push_back(*cell.variant);
  return plain_name(variants);
}

}  // namespace

void price_cells(const Prices& prices, std::vector<CellReport>& cells) {
  for (CellReport& cell : cells) {
    if (cell.valid()) cell.cost = cell_cost(prices, cell.variant->place, cell.use);
  }
}

std::vector<CostedCell> costed_cells(const RunReport& report) {
  std::vector<CostedCell> cells;
  for (const CellReport& cell : report.cells) {
    if (!cell.cost) continue;
    cells.push_back({.setting = cell.setting->name,
                     .device = device_name(cell),
                     .variant = cell.variant->name,
                     .round_trip_ms = round_trip_ms(cell),
                     .place = cell.variant->place,
                     .use = cell.use,
                     .cost = *cell.cost});
  }
  return cells;
}

std::vector<BreakEven> break_evens_of(const RunReport& report) {
  return break_evens(costed_cells(report), plain_of(report));
}

TextTable cost_table(std::span<const CostedCell> cells) {
  TextTable table{.heads = {"setting", "strategy"}, .rows = {}};
  for (const CostKind kind : kBilled) table.heads.emplace_back(title_of(kind));
  for (const CostedCell& cell : cells) {
    std::vector<std::string> row = {cell.setting, cell.variant};
    for (const CostKind kind : kBilled) {
      row.push_back(number_or_dash(cell.cost.total(kind), "{:.3g}"));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

TextTable break_even_table(const std::vector<BreakEven>& found) {
  TextTable table{.heads = {"devices", "strategy", "acceptance"}, .rows = {}};
  std::vector<std::size_t> shown;
  for (const auto& [kind, name] : enum_names<CostKind>) {
    const auto place = static_cast<std::size_t>(kind);
    const bool known = std::ranges::any_of(
        found, [place](const BreakEven& one) { return one.kinds.at(place).has_value(); });
    if (!known || kind == CostKind::kDevice) continue;
    shown.push_back(place);
    table.heads.emplace_back(title_of(kind));
  }
  for (const BreakEven& one : found) {
    std::vector<std::string> row = {one.device, one.variant,
                                    number_or_dash(one.acceptance, "{:.2f}")};
    for (const std::size_t place : shown) {
      const auto& kind = one.kinds.at(place);
      row.push_back(kind ? to_string(*kind) : "–");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string cost_markdown(const RunReport& report) {
  if (!report.prices) return "\nNo prices were given (`--price-file FILE`): no costs.\n";
  return fmt::format(
      "\n## Cost\n\nDollars per million output tokens, by the prices of {}.\n\n{}\n"
      "## Where drafting on the edge stops paying\n\n{}\n\n{}",
      report.prices->date, to_markdown(cost_table(costed_cells(report))), kBreakEvenCaption,
      to_markdown(break_even_table(break_evens_of(report))));
}

}  // namespace outrider
