// Counts the figures of one answer (decoding_stats.h) from what its session reports.
//
// Thread rule: the session's. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "edge_client/metrics/decoding_stats.h"
#include "edge_client/metrics/session_observer.h"

namespace outrider {

class FigureRecorder final : public SessionObserver {
 public:
  const DecodingStats& stats() const { return stats_; }

  void on_start(std::size_t prompt_tokens, TimePoint now) override;
  void on_opened(const Opened& opened, Duration took, bool reconnected) override;
  void on_sent(const EdgeMessage::Body& body, TimePoint now) override;
  void on_round_sent(TimePoint now) override { keeper_.on_round_sent(now); }
  void on_sent_ahead(std::size_t nodes) override { stats_.predraft.ahead_nodes += nodes; }
  void on_pass_started(const Started& started, std::optional<Duration> synced,
                       TimePoint now) override;
  void on_exit_report(const ExitReport& report, bool taken, TimePoint now) override;
  void on_draft_step(const DraftStepDone& step, TimePoint now) override;
  void on_verdict(const VerdictRecord& record, TimePoint now) override;
  void on_cache_lookup(const CacheLookup& found, std::size_t wanted, TimePoint now) override;
  void on_plan_changed(const PlanChange& change) override;
  void on_usage(const Usage& usage) override;

 private:
  void record_pass(const VerdictRecord& record);
  void record_times(TimePoint now);
  void record_round_trip(Duration took);

  DecodingStats stats_;
  std::optional<TimePoint> started_;  // the first Open left
  std::optional<TimePoint> first_token_;
  std::vector<Duration> sorted_round_trips_;
  // The last policy's wish, and the policy in force when the current pass began. If a policy
  // crosses a pass's start on its way, one pass is counted wrongly.
  bool wants_exits_ = false;
  bool pass_has_exits_ = false;
  bool server_drafts_ = false;
  TimeKeeper keeper_{stats_.time_spent};
};

}  // namespace outrider
