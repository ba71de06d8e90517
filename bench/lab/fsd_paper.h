// FSD's early-exit reports as its paper prints them ("fsd-paper"): each report is sent alone, and
// each holds a thread of the edge for a whole round of drafting. Nothing is deduplicated, no step
// serves several hypotheses, and no thread is taken from a report. Our own fsd differs in all of
// this (bench/paper/paper.md).
//
// Both queues are the same thing: jobs, workers that each take one job for a fixed time, and an
// order. At the server the one worker is the link, on the edge the workers are the threads.
//
// Times are relative to the pass's start at the server. The way of the link delays reports and
// verdict alike, so it is in none of them.
//
// Thread rule: pure; randomness is an argument. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "common/decoding/drafting/growth_policy.h"
#include "emulation/random/random.h"

namespace outrider {

// An exit's report in a queue.
struct QueuedReport {
  double at_ms = 0;       // when it enters the queue
  double confidence = 0;  // algorithm 2: of its surest token
  bool right = false;     // it names what the verdict will say
};

// Reports, which come in the order of their times, leave a queue, by this order, as workers become
// free; each keeps its worker for busy_ms. Returns those that a worker took before until_ms, with
// the times at which it finished them.
std::vector<QueuedReport> take_in_order(std::span<const QueuedReport> reports, QueueOrder order,
                                        int workers, double busy_ms, double until_ms,
                                        SeededRandom& random);

struct FsdPaperOptions {
  int threads = 1;  // "Num EE Threads" of tables 5 and 8a
  QueueOrder client = QueueOrder::kPriority;
  QueueOrder server = QueueOrder::kPriority;
  double pass_ms = 0;      // T_q
  double drafting_ms = 0;  // gamma T_p
  double send_ms = 0;      // of one report; the paper does not print it
  double sync_ms = 0;      // T_r: the least that a hit waits for its thread
};

// The end of one pass: whether a thread drafts, or has drafted, behind the verdict's own outcome,
// and how long the edge waits until it can send that round.
struct FsdPaperRound {
  bool hit = false;
  double wait_ms = 0;  // gamma T_p after a miss
};

// reports: one of each exit, in the order of the layers; at_ms is when its exit spoke.
FsdPaperRound fsd_paper_round(std::span<const QueuedReport> reports, const FsdPaperOptions& options,
                              SeededRandom& random);

}  // namespace outrider
