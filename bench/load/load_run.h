// Runs a load: a thread for each client, which asks the schedule for its next request, waits until
// that is due, and has it answered.
//
// Thread rule: run_load() blocks; its progress is shown on the calling thread. Ownership: clients
// and prompts outlive the call. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/load/load_clients.h"
#include "bench/load/load_figures.h"
#include "bench/load/load_plan.h"

namespace outrider {

struct LoadSeat {
  ClientKind kind = ClientKind::kEdge;
  std::size_t number = 0;  // among those of its kind
  LoadClient* client = nullptr;
};

// Greedy seats begin with the others and end when these have ended. prompts: not empty. title: of
// the lines of progress, on stderr. Requests in the order in which they ended.
std::vector<LoadSample> run_load(const LoadShape& shape, std::span<const LoadSeat> seats,
                                 std::span<const LoadPrompt> prompts, const std::string& title);

}  // namespace outrider
