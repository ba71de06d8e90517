// The modelled energy of a run's cells: joules per token and per answer, part by part.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "bench/report/cell_report.h"
#include "bench/report/text_table.h"

namespace outrider {

// The cells that have an energy.
TextTable energy_table(std::span<const CellReport> cells);

// A section of a report; empty without a device file. `model`: whose devices they are.
std::string energy_markdown(const std::optional<EnergyModel>& model,
                            std::span<const CellReport> cells);

// Names and estimates of the model's devices; null without one.
Json to_json(const std::optional<EnergyModel>& model);

}  // namespace outrider
