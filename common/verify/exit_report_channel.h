// An ExitReporter that the compute thread fills while other threads acknowledge and send: reports
// leave during the pass, and a send that takes its time holds up neither the pass nor its verdict.
//
// Thread rule: any thread. One of them at a time carries reports to `emit`; who comes meanwhile
// leaves its work to that one, so emit may call back into acknowledge() and send().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>

#include "common/verify/exit_reporter.h"

namespace outrider {

class ExitReportChannel final {
 public:
  explicit ExitReportChannel(ReportQueue queue) : reporter_(queue) {}

  void begin_pass(std::uint32_t pass);
  void offer(const ExitGuess& guess);
  Status acknowledge(std::uint32_t seq, TimePoint now);
  void end_pass(Position text_end);
  void settle(Position acked);
  bool waiting() const;  // something to send, now or when there is room
  ReportCounts counts() const;

  // Hands to `emit` what may go now. A report that is being handed over as the pass ends may come
  // after the verdict; no other does.
  void send(Clock& clock, const std::function<void(const ExitReport&)>& emit);

 private:
  mutable std::mutex mu_;
  ExitReporter reporter_;
  bool sending_ = false;
};

}  // namespace outrider
