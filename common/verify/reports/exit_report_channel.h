// The way of one stream's exit reports to its edge. The owner of the stream owns the channel:
// it says where reports go, hands the channel to the scheduler when the stream connects, and
// applies each message's acknowledgements as the message arrives, also while a pass runs. The
// scheduler fills it from the compute thread, so that reports leave during the pass, and a send
// that takes its time holds up neither the pass nor its verdict.
//
//   owner:      acknowledge (send)?
//   scheduler:  (begin_pass offer* end_pass)*
//
// Thread rule: any thread. One of them at a time carries reports to `emit`; one that comes
// meanwhile leaves its work to that one, so emit may call back into acknowledge() and send().
// Ownership: the clock outlives the channel. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/verify/reports/exit_reporter.h"

namespace outrider {

class ExitReportChannel final {
 public:
  using Emit = std::function<void(const ExitReport&)>;

  ExitReportChannel(ReportQueue queue, const Clock& clock, Emit emit)
      : clock_(clock), emit_(std::move(emit)), reporter_(queue) {}

  // --- the stream's owner ---
  // What a message of the edge acknowledges; once for each message, before the scheduler gets it.
  // True if there is room now for a report that waits: then send() should follow, on any thread.
  bool acknowledge(const EdgeMessage& message);
  // Emits what may go now. A report that is being emitted as the pass ends may come after the
  // verdict; no other does.
  void send();

  // --- the scheduler ---
  void begin_pass(std::uint32_t pass);
  void offer(const ExitGuess& guess);  // and sends what may go
  // The verdict is out, and the text with it ends at `text_end`.
  void end_pass(Position text_end);
  // FAILED_PRECONDITION once the edge has acknowledged a report that was never sent.
  Status status() const;
  ReportCounts counts() const;

 private:
  const Clock& clock_;
  const Emit emit_;
  mutable Mutex mu_;
  ExitReporter reporter_ OUTRIDER_GUARDED_BY(mu_);
  Status status_ OUTRIDER_GUARDED_BY(mu_);
  bool sending_ OUTRIDER_GUARDED_BY(mu_) = false;
};

}  // namespace outrider
