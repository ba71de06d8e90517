// One edge's stream as the scheduler keeps it: once Open came, a session with the KV cache and the
// exit reports that belong to it.
//
//   open (receive | start compute finish)* retire
//
// Thread rule: owned by the scheduler's thread. Ownership: pool, runner and probe are the
// scheduler's and outlive the call. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "common/protocol/messages.h"
#include "common/verify/exit_probe.h"
#include "common/verify/exit_report_channel.h"
#include "common/verify/kv_pool.h"
#include "common/verify/pass_runner.h"
#include "common/verify/session.h"
#include "common/verify/target.h"

namespace outrider {

class VerifyStream final {
 public:
  // reports: the way of its exit reports; null: none are sent.
  VerifyStream(std::string session_id, std::shared_ptr<ExitReportChannel> reports, TimePoint now)
      : session_id_(std::move(session_id)), reports_(std::move(reports)), last_active_(now) {}

  // The first message, with the Open that it holds; the Open has passed check_open().
  Status open(const EdgeMessage& message, const Target& target, KvPool& pool,
              std::uint32_t prefill_chunk, TimePoint now);
  // Every later message.
  Status receive(const EdgeMessage& message, TimePoint now);
  // An error if the edge has acknowledged an exit report that was never sent.
  Status check_reports(const EdgeMessage& message) const;

  // Begins what the session wants of the device.
  PassPlan start(TimePoint now) { return session_->start(now); }
  // Runs it; with a probe, exits report if the plan wants them.
  Status compute(const PassPlan& plan, PassRunner& runner, ExitProbe* probe);
  // Ends it, if compute() went well: chooses, commits, keeps what stands in the cache.
  void finish(PassRunner& runner, Duration computed, TimePoint now);

  // Ends the session; its KV waits in the pool for a stream that replaces it.
  void retire(KvPool& pool);

  std::vector<ServerMessage> take_messages();
  bool wants_device(TimePoint now) const;
  // When the session wants the device or the edge has been silent for `idle_timeout`.
  TimePoint wake_at(Duration idle_timeout) const;
  void touch(TimePoint now) { last_active_ = now; }
  bool silent(Duration idle_timeout, TimePoint now) const {
    return now - last_active_ >= idle_timeout;
  }

  const std::string& session_id() const { return session_id_; }
  // Null before Open and after retire().
  const VerifySession* session() const { return session_.get(); }
  ReportCounts report_counts() const { return reports_ ? reports_->counts() : ReportCounts{}; }

 private:
  const std::string session_id_;
  const std::shared_ptr<ExitReportChannel> reports_;
  TimePoint last_active_;  // heard of, or served
  std::unique_ptr<VerifySession> session_;
  std::unique_ptr<KvCache> cache_;  // the session's
};

}  // namespace outrider
