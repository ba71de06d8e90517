// Writes what a session reports into a Timeline, for a viewer of Chrome traces.
//
// Thread rule: the session's. The timeline outlives it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "edge_client/metrics/session_observer.h"
#include "edge_client/metrics/time_spent.h"
#include "edge_client/metrics/timeline.h"

namespace outrider {

class TimelineRecorder final : public SessionObserver {
 public:
  explicit TimelineRecorder(Timeline& timeline) : timeline_(timeline) {}

  void on_start(std::size_t prompt_tokens, TimePoint now) override;
  void on_opened(const Opened& opened, Duration took, bool reconnected) override;
  void on_sent(const EdgeMessage::Body& body, TimePoint now) override;
  void on_round_sent(TimePoint now) override { keeper_->on_round_sent(now); }
  void on_pass_started(const Started& started, std::optional<Duration> synced,
                       TimePoint now) override;
  void on_exit_report(const ExitReport& report, bool taken, TimePoint now) override;
  void on_draft_step(const DraftStepDone& step, TimePoint now) override;
  void on_verdict(const VerdictRecord& record, TimePoint now) override;
  void on_cache_lookup(const CacheLookup& found, std::size_t wanted, TimePoint now) override;

 private:
  void draw_waits(const TimeSpent& spent, TimePoint now);

  Timeline& timeline_;
  std::vector<std::int32_t> exit_layers_;
  TimeSpent spent_;
  std::optional<TimeKeeper> keeper_{spent_};  // of the answer at hand
};

}  // namespace outrider
