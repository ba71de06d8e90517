// One edge's stream as the scheduler keeps it: once Open came, a session with the KV cache and the
// exit reports that belong to it.
//
//   assemble* open (receive | start watch finish_rows choose finish)* (retire | discard)
//
// Thread rule: owned by the scheduler's thread. Ownership: pool, runner, probe and pruner are the
// scheduler's; the last two outlive the pass. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "common/protocol/messages.h"
#include "common/protocol/open_assembly.h"
#include "common/verify/branch_pruner.h"
#include "common/verify/exit_probe.h"
#include "common/verify/exit_reports.h"
#include "common/verify/kv_pool.h"
#include "common/verify/pass_runner.h"
#include "common/verify/scheduler_types.h"
#include "common/verify/session.h"
#include "common/verify/target.h"

namespace outrider {

// What the owner of a stream shares with its passes while they run.
struct PassHooks {
  // The way of its exit reports. The owner applies the edge's acknowledgements to it. Null: none
  // are sent.
  std::shared_ptr<ExitReportChannel> reports = nullptr;
  // Called with how far the prompt is read, on the thread that runs the pass; empty: never.
  std::function<void(const Progress&)> on_progress = {};
  // Set by the owner when nobody wants its passes any more: one that runs may then end early, and
  // ends the stream. Null: never.
  std::shared_ptr<const std::atomic<bool>> abandoned = nullptr;
};

class VerifyStream final {
 public:
  VerifyStream(SessionName name, PassHooks hooks, TimePoint now)
      : name_(std::move(name)), hooks_(std::move(hooks)), last_active_(now) {}

  // Begins to gather the prefix that an Open does not hold.
  void assemble(const EdgeMessage& message, TimePoint now) { assembly_.emplace(message, now); }
  // Null: nothing is being gathered.
  OpenAssembly* assembly() { return assembly_ ? &*assembly_ : nullptr; }
  const OpenAssembly* assembly() const { return assembly_ ? &*assembly_ : nullptr; }
  // What was gathered.
  std::vector<EdgeMessage> assembled();

  // The first message, with the Open that it holds; the Open has passed check_open().
  Status open(const EdgeMessage& message, const Target& target, KvPool& pool,
              std::uint32_t prefill_chunk, TimePoint now);
  // Every later message.
  Status receive(const EdgeMessage& message, TimePoint now);
  // An error if the edge has acknowledged an exit report that was never sent.
  Status check_reports(const EdgeMessage& message) const;

  // Takes the memory that the next pass may need. RESOURCE_EXHAUSTED as KvPool::take().
  Status reserve(KvPool& pool);
  // Begins what the session wants of the device. most_tokens: as VerifySession::start().
  Rider start(StreamId id, TimePoint now, std::size_t most_tokens);
  // Who watches the rider's rows, which stays where it is until the pass is over: with a probe,
  // exits report if the plan wants them; with a pruner branches may end.
  void watch(Rider& rider, ExitProbe* probe, BranchPruner* pruner);
  // The runner has computed the rider's rows; chooses where logits come lazily. Errors: of those.
  Status finish_rows(Rider& rider, PassRunner& runner);
  // Chooses what has not been chosen yet. Changes nothing that others see, so that streams may
  // choose side by side.
  void choose(const Rider& rider, const PassRunner& runner);
  // Ends the pass, if that went well: commits, keeps what stands in the cache.
  void finish(const Rider& rider, PassRunner& runner, const RiderTimes& times, TimePoint now);

  // Ends the session; its KV waits in the pool for a stream that replaces it.
  void retire(KvPool& pool, TimePoint now);
  // Ends it with nothing kept.
  void discard(KvPool& pool);

  std::vector<ServerMessage> take_messages();
  bool wants_device(TimePoint now) const;
  // When the session wants the device, which it may have from `ready_at` on, or the edge has been
  // silent for `idle_timeout`.
  TimePoint wake_at(Duration idle_timeout, Duration open_timeout, TimePoint ready_at) const;
  // It comes in after the turn of this number.
  void join(std::uint64_t turn) { joined_ = turn; }
  std::uint64_t joined() const { return joined_; }
  // Has the turn of this number.
  void serve(std::uint64_t turn) { served_ = turn; }
  std::uint64_t served() const { return served_; }
  void touch(TimePoint now) { last_active_ = now; }
  // Of a pass; nothing: then of all passes it is not known.
  void add_joules(std::optional<double> joules) {
    joules_ = joules_ && joules ? std::optional(*joules_ + *joules) : std::nullopt;
  }
  // The usage record of the session.
  SessionRecord record(TimePoint now) const;
  // The limit as a message carries it: itself, or 0 if the edge knows about the same one.
  Duration announce_pass_limit(Duration limit);
  bool silent(Duration idle_timeout, TimePoint now) const {
    return now - last_active_ >= idle_timeout;
  }

  const SessionName& name() const { return name_; }
  const std::string& group() const { return name_.owner.group; }
  // Null before Open and after retire().
  const VerifySession* session() const { return session_.get(); }
  ReportCounts report_counts() const {
    return hooks_.reports ? hooks_.reports->counts() : ReportCounts{};
  }

 private:
  SessionName name_;  // its key comes with Open
  const PassHooks hooks_;
  TimePoint last_active_;  // when the answer came on, on either side
  std::uint64_t joined_ = 0;
  std::uint64_t served_ = 0;
  std::optional<OpenAssembly> assembly_;
  Duration told_limit_{0};
  std::optional<double> joules_ = 0.0;
  std::unique_ptr<VerifySession> session_;
  KvPool::Lease lease_;  // the session's cache
  ChosenWalk walk_;      // of a pass that was computed and is not finished
};

}  // namespace outrider
