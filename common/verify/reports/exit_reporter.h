// What early exits say goes to the edge in the order of its worth, through a window.
//
// In a pass every exit guesses an outcome (leaf and next token). A guess that repeats one of the
// pass is not said twice. The others wait in a queue; at most W bytes of reports are on their way
// unacknowledged, so that on a slow link the queue decides what goes first, not a full buffer. When
// the verdict is out, what still waits is dropped. W follows the link: twice the measured bandwidth
// times the shortest round trip, both from acknowledgements (after BBR, Cardwell et al. 2016). A
// rate measured while there was less to say than the window holds tells of the exits, not of the
// link: it may raise the window, never lower it.
//
//   (acknowledge | settle | begin_pass (offer | next | acknowledge | settle)* end_pass)*
//
// Pure: time is an argument. Thread rule: owned by one thread; ExitReportChannel shares it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/protocol/messages.h"
#include "common/verify/reports/report_queue.h"

namespace outrider {

// What a report counts for in the window: its budget on the wire.
inline constexpr std::uint32_t kReportBytes = 48;

// One exit's guess at the pass's verdict.
struct ExitGuess {
  std::int32_t exit = 0;  // index into Opened.exits
  NodeId leaf_id = 0;
  TokenId next_token = 0;
  double confidence = 0;  // 0 .. 1
};

struct ReportCounts {
  std::uint64_t computed = 0;  // guesses offered
  std::uint64_t sent = 0;
  std::uint64_t deduplicated = 0;  // said or waiting already
  std::uint64_t dropped = 0;       // the verdict came first
};

class ExitReporter final {
 public:
  explicit ExitReporter(ReportQueue queue) : queue_(queue) {}

  void begin_pass(std::uint32_t pass);
  void offer(const ExitGuess& guess);
  // The next report to send now; none if nothing waits or the window is full.
  std::optional<ExitReport> next(TimePoint now);
  // The edge has seen all reports up to `seq`. An older acknowledgement changes nothing.
  // FAILED_PRECONDITION for a report that was never sent.
  Status acknowledge(std::uint32_t seq, TimePoint now);
  // The verdict is out, and the text with it ends at `text_end`: nothing of this pass is sent any
  // more.
  void end_pass(Position text_end);
  // The edge has the text up to `acked`: reports of passes that decided it are no longer on their
  // way. It has them, or a queue dropped them for their verdict and nobody will acknowledge them.
  void settle(Position acked);

  bool waiting() const;  // a guess of this pass that was not sent
  std::uint32_t window_bytes() const;
  std::uint32_t bytes_in_flight() const { return (last_seq_ - acked_seq_) * kReportBytes; }
  const ReportCounts& counts() const { return counts_; }

 private:
  struct Waiting {
    ExitGuess guess;
    bool sent = false;
  };
  struct InFlight {
    std::uint32_t seq;
    TimePoint sent_at;
    std::uint64_t delivered_before;  // delivered_ as it was sent
    bool limited;                    // by what there was to say, not by the window
  };
  // The last report of a pass, and where the text ended with its verdict.
  struct PassEnd {
    Position text_end;
    std::uint32_t last_seq;
  };

  void drop_waiting();
  double product(double rate) const;
  void measure(const InFlight& report, TimePoint now);

  const ReportQueue queue_;
  bool in_pass_ = false;
  std::uint32_t pass_ = 0;
  std::vector<Waiting> said_;  // of this pass, one per outcome, in order of arrival
  std::uint32_t last_seq_ = 0, acked_seq_ = 0;
  std::deque<InFlight> in_flight_;
  std::deque<PassEnd> ended_;    // passes with reports in flight
  std::uint64_t delivered_ = 0;  // reports that were acknowledged by number
  // The window had room and nothing to fill it after this report; until one after it is seen.
  std::optional<std::uint32_t> idle_after_ = 0;
  std::deque<double> rates_;          // bytes per second, of the latest acknowledgements
  std::optional<Duration> shortest_;  // round trip; of all, as a full window lengthens the latest
  ReportCounts counts_;
};

}  // namespace outrider
