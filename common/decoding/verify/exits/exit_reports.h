// Reports of early exits go to the edge in the order of their worth, a few at a time.
//
// In a pass every exit guesses an outcome (leaf and next token). A guess that repeats one of the
// pass is not said twice. The others wait in a queue; only so many reports are on their way
// unacknowledged, so that on a slow link the queue decides what goes first, not a full buffer.
//
// The gain of a report is the chance that it is right, times the time left to draft, times the
// saving of a hit. Of these only the chance differs between reports that wait together, so the
// likeliest goes first:
// - time left: a report and its verdict travel in one ordered stream. The edge can draft for as
//   long before it hears the verdict as the pass goes on after the report has left. When the
//   verdict is out, what still waits cannot arrive in time, and is dropped.
// - what a hit saves: the nodes that this side has are rows of the pass, so none hangs below an
//   outcome that an exit names.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/decoding/exits/online_calibration.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"

namespace outrider {

// One exit's guess at the pass's verdict.
struct ExitGuess {
  std::int32_t exit = 0;   // index into Opened.exits
  std::int32_t layer = 0;  // of the exit
  NodeId leaf_id = 0;
  TokenId next_token = 0;
  double confidence = 0;              // 0 .. 1, as the exit states it
  std::vector<TokenId> path = {};     // as in ExitReport
  std::vector<TokenId> outcome = {};  // the verdict's tokens, if the exit is right
};

struct ReportCounts {
  std::uint64_t computed = 0;  // guesses offered
  std::uint64_t sent = 0;
  std::uint64_t deduplicated = 0;  // said or waiting already
  std::uint64_t dropped = 0;       // the verdict came first
};

//   (acknowledge | settle | begin_pass (offer | next | acknowledge | settle)* end_pass)*
//
// Thread rule: owned by one thread; ExitReportChannel shares it.
class ExitReportWindow final {
 public:
  // Reports on their way at most. An edge acknowledges with each message that it sends, so more
  // are only out on a link whose way takes longer than several passes.
  static constexpr std::uint32_t kMaxInFlight = 8;

  explicit ExitReportWindow(ReportQueue queue) : queue_(queue) {}

  void begin_pass(std::uint32_t pass);
  void offer(const ExitGuess& guess);
  // The next report to send now; none if nothing waits or too many are on their way.
  std::optional<ExitReport> next();
  // The edge has seen all reports up to `seq`. An older acknowledgement changes nothing.
  // FAILED_PRECONDITION for a report that was never sent.
  Status acknowledge(std::uint32_t seq);
  // The verdict of these tokens is out, and the text with it ends at `text_end`: nothing of this
  // pass is sent any more. Without tokens: no verdict came of it.
  void end_pass(Position text_end, std::span<const TokenId> verdict);
  // The edge has the text up to `acked`: reports of passes that decided it are no longer on their
  // way. It has them, or a queue dropped them for their verdict and nobody will acknowledge them.
  void settle(Position acked);

  std::uint32_t in_flight() const { return last_seq_ - acked_seq_; }
  const ReportCounts& counts() const { return counts_; }

 private:
  struct Waiting {
    ExitGuess guess;
    double chance = 0;  // that it is right, as far as is known here
    bool sent = false;
  };
  // The last report of a pass, and where the text ended with its verdict.
  struct PassEnd {
    Position text_end;
    std::uint32_t last_seq;
  };

  void drop_waiting();

  const ReportQueue queue_;
  bool in_pass_ = false;
  std::uint32_t pass_ = 0;
  std::vector<Waiting> said_;  // of this pass, one per outcome, in order of arrival
  std::uint32_t last_seq_ = 0, acked_seq_ = 0;
  std::deque<PassEnd> ended_;      // passes with reports in flight
  OnlineCalibration calibration_;  // with ReportQueue::kGain
  ReportCounts counts_;
};

// The way of one stream's exit reports to its edge. The owner of the stream owns the channel: it
// says where reports go, hands the channel to the scheduler when the stream connects, and applies
// each message's acknowledgements as the message arrives, also while a pass runs. Reports leave
// during the pass, on the compute thread, as its exits speak: one that finds too many on their way
// goes with the next exit, if there is room by then.
//
//   owner:      acknowledge*
//   scheduler:  (begin_pass offer* end_pass)*
//
// Thread rule: the owner calls from any thread, the scheduler from one. `emit` is called with no
// lock held, so it may call back into acknowledge().
class ExitReportChannel final {
 public:
  using Emit = std::function<void(const ExitReport&)>;

  ExitReportChannel(ReportQueue queue, Emit emit) : emit_(std::move(emit)), window_(queue) {}

  // Takes the acknowledgements of an edge's message; once for each message, before the scheduler
  // gets it.
  void acknowledge(const EdgeMessage& message);

  void begin_pass(std::uint32_t pass);
  void offer(const ExitGuess& guess);  // and emits what may go
  // The same as the window's.
  void end_pass(Position text_end, std::span<const TokenId> verdict);
  // FAILED_PRECONDITION once the edge has acknowledged a report that was never sent.
  Status status() const;
  ReportCounts counts() const;

 private:
  const Emit emit_;
  mutable Mutex mu_;
  ExitReportWindow window_ OUTRIDER_GUARDED_BY(mu_);
  Status status_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
