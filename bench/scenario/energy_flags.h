// The flags by which a run's answers have a modelled energy (bench/cost/energy.h).
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "bench/cost/energy.h"
#include "common/base/status.h"

namespace outrider {

struct EnergyFlags {
  std::string device_file;  // TOML files; empty: no energy
  std::string server_file;
  std::optional<double> draft_mb;  // of weights; nothing: the models' own
  std::optional<double> target_mb;
};

void add_energy_flags(CLI::App& command, EnergyFlags& flags, const char* group);

// Nothing without a device file. threads: that compute on the device. Errors: of the files, and of
// flags that need one.
Result<std::optional<EnergyModel>> energy_model(const EnergyFlags& flags, int threads);

}  // namespace outrider
