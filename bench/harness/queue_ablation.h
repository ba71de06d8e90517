// Table 7 of the FSD paper on our cells: what the order of the client's and the server's queue, and
// the number of pre-draft workers, do to r: the share of the drafting that verdicts leave. (There a
// pre-draft is in the cache or not, here it can be there in part; so r counts parts.)
//
// Two cells differ if the 95 % interval of the difference of their r, prompt by prompt, leaves out
// 0: anything less is noise.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/grid.h"
#include "bench/harness/statistics.h"
#include "common/drafting/growth_policy.h"
#include "common/verify/scheduler_options.h"

namespace outrider {

inline constexpr std::array kClientQueues = {QueueOrder::kPriority, QueueOrder::kRandom,
                                             QueueOrder::kFifo};
inline constexpr std::array kServerQueues = {ReportQueue::kPriority, ReportQueue::kFifo};

// The name of a cell's variant.
std::string queue_cell(QueueOrder client, ReportQueue server, int workers);

std::optional<Estimate> left_rate(const GridCell& cell);

// Whether no other order at so many workers leaves less than priority at both ends, beyond noise.
bool priority_is_best(const GridResult& result, const std::string& setting, int workers);

// Which choices make a difference beyond noise, each against priority/priority.
struct QueueEffects {
  bool client = false;
  bool server = false;
  bool workers = false;
  bool any() const { return client || server || workers; }
};
QueueEffects queue_effects(const GridResult& result, const std::string& setting,
                           const std::vector<int>& workers);

// As the paper prints it, with intervals.
std::string queue_table(const GridResult& result, const std::string& setting,
                        const std::vector<int>& workers);

}  // namespace outrider
