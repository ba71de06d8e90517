// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/fsd_paper.h"

#include <algorithm>
#include <cstddef>

namespace outrider {
namespace {

// The index of the report that leaves next; the earlier one of equals.
std::size_t next_of(const std::vector<QueuedReport>& waiting, QueueOrder order,
                    SeededRandom& random) {
  if (order == QueueOrder::kFifo) return 0;
  if (order == QueueOrder::kRandom) return random.below(waiting.size());
  const auto surest = std::ranges::max_element(waiting, {}, &QueuedReport::confidence);
  return static_cast<std::size_t>(surest - waiting.begin());
}

}  // namespace

std::vector<QueuedReport> take_in_order(std::span<const QueuedReport> reports, QueueOrder order,
                                        int workers, double busy_ms, double until_ms,
                                        SeededRandom& random) {
  std::vector<double> free_at(static_cast<std::size_t>(workers), 0.0);
  std::vector<QueuedReport> waiting, done;
  std::size_t arrived = 0;
  while (arrived < reports.size() || !waiting.empty()) {
    double& worker = *std::ranges::min_element(free_at);
    const double here = waiting.empty() ? reports[arrived].at_ms : waiting.front().at_ms;
    const double now = std::max(worker, here);
    if (now >= until_ms) break;
    for (; arrived < reports.size() && reports[arrived].at_ms <= now; ++arrived) {
      waiting.push_back(reports[arrived]);
    }
    const auto taken =
        waiting.begin() + static_cast<std::ptrdiff_t>(next_of(waiting, order, random));
    worker = now + busy_ms;
    done.push_back(*taken);
    done.back().at_ms = worker;
    waiting.erase(taken);
  }
  return done;
}

FsdPaperRound fsd_paper_round(std::span<const QueuedReport> reports, const FsdPaperOptions& options,
                              SeededRandom& random) {
  const std::vector<QueuedReport> sent =
      take_in_order(reports, options.server, 1, options.send_ms, options.pass_ms, random);
  FsdPaperRound round{.hit = false, .wait_ms = options.drafting_ms};
  for (const QueuedReport& drafted : take_in_order(sent, options.client, options.threads,
                                                   options.drafting_ms, options.pass_ms, random)) {
    if (!drafted.right || round.hit) continue;  // the first one to begin is the first one to end
    round.hit = true;
    round.wait_ms = std::max(drafted.at_ms - options.pass_ms, options.sync_ms);
  }
  return round;
}

}  // namespace outrider
