// A load's figures for people, in the layout of vLLM's serving benchmark, and as JSON.
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/load/load_figures.h"
#include "common/base/json.h"

namespace outrider {

struct LoadReport {
  std::string title;
  LoadFigures figures;
  std::vector<LatencySlo> slos = {};
  // Processor time of this program a second: what its clients take from a server on this machine.
  double client_cores = 0;
  std::optional<ServerCounters> server = {};       // nothing: its metrics were not read
  std::optional<double> greedy_tokens_per_s = {};  // nothing: there was no greedy tenant
};

std::string load_table(const LoadReport& report);

Json to_json(const LoadReport& report);
Json to_json(const LoadSample& request);

}  // namespace outrider
