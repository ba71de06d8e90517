// One edge's stream as the scheduler keeps it: once Open came, a session with the KV cache and the
// exit reports that belong to it.
//
//   assemble wait_for_place lease open (receive | start watch finish_rows score choose finish)*
//   (retire | discard)
//
// Thread rule: owned by the scheduler's thread. Ownership: pool, runner, probe and pruner are the
// scheduler's; the last two outlive the pass. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/protocol/open_assembly.h"
#include "common/decoding/request/slo.h"
#include "common/decoding/verify/exits/branch_pruner.h"
#include "common/decoding/verify/exits/exit_probe.h"
#include "common/decoding/verify/exits/exit_reports.h"
#include "common/decoding/verify/memory/kv_pool.h"
#include "common/decoding/verify/scheduling/fairness.h"
#include "common/decoding/verify/scheduling/pass_runner.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/decoding/verify/session/session.h"
#include "common/decoding/verify/session/target.h"
#include "common/engine/model/model.h"

namespace outrider {

// The parts that the owner of a stream shares with its passes while they run.
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

  // Begins to gather the prefix that an Open may not hold, and what comes until it has a session.
  void assemble(EdgeMessage message, TimePoint now) { assembly_.emplace(std::move(message), now); }
  // Null: nothing is being gathered.
  OpenAssembly* assembly() { return assembly_ ? &*assembly_ : nullptr; }
  const OpenAssembly* assembly() const { return assembly_ ? &*assembly_ : nullptr; }
  // The messages that were gathered.
  std::vector<EdgeMessage> assembled();
  // The Open is whole and was found right: the stream waits for a place. first: before all others,
  // as its session had one already.
  void wait_for_place(bool first, TimePoint now) {
    name_.key = assembly_->open().session_key;
    waits_ = Waits{first, now};
  }
  struct Waits {
    bool first = false;
    TimePoint since;
  };
  // Nothing: it does not wait for one.
  const std::optional<Waits>& waits() const { return waits_; }

  // Memory for the session of the Open that was gathered. RESOURCE_EXHAUSTED as KvPool::take().
  Status lease(const Target& target, KvPool& pool, TimePoint now);
  // The first message, with the Open that it holds; the Open has passed check_open().
  Status open(const EdgeMessage& message, const Target& target, std::uint32_t prefill_chunk,
              TimePoint now);
  // Every later message.
  Status receive(const EdgeMessage& message, TimePoint now);
  // An error if the edge has acknowledged an exit report that was never sent.
  Status check_reports(const EdgeMessage& message) const;

  // `other` is about to compute text that this one has still to read, by whole pages: in a later
  // pass it is there.
  bool will_be_read_by(const VerifyStream& other) const;
  // Takes the memory that the next pass may need, all of it if the session gave up its own.
  // RESOURCE_EXHAUSTED as KvPool::take().
  Status reserve(KvPool& pool, const PassBounds& bounds, TimePoint now);
  // The session has keys and values.
  bool holds_memory() const { return session_ != nullptr && lease_.cache != nullptr; }
  // Gives its memory to others. The session goes on later: its text is its state.
  void give_up_memory(KvPool& pool, TimePoint now);
  // For an edge whose session waits for memory: once a second that it still lives.
  std::optional<Progress> progress_while_waiting(TimePoint now);
  // Lets others share the result of its last pass.
  void share(KvPool& pool, TimePoint now) {
    if (holds_memory()) pool.share(lease_, session_->cached_text(), now);
  }
  // The session, to draft for; null as session().
  VerifySession* drafted() { return session_.get(); }
  // Begins what the session wants of the device.
  Rider start(StreamId id, TimePoint now, const PassBounds& bounds);
  // Sets the observers of the rider's rows; the rider stays where it is until the pass is over.
  // With a probe, exits report if the plan wants them; with a pruner, branches may end.
  void watch(Rider& rider, ExitProbe* probe, BranchPruner* pruner);
  // The runner has computed the rider's rows; chooses where logits come lazily. Errors: of those.
  Status finish_rows(Rider& rider, PassRunner& runner);
  // Takes the log-probabilities of the prompt that the pass gives, if the session asked for some.
  void score(const Rider& rider, const PassRunner& runner);
  // Chooses what has not been chosen yet. Changes nothing that others see, so that streams may
  // choose side by side. Errors: ChosenWalk's.
  Status choose(const Rider& rider, const PassRunner& runner);
  // The pruner that watched its branches hears what was chosen.
  void show_choices(const Rider& rider, BranchPruner& pruner) const;
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
  // Adds the energy of a pass; with nothing, that of all passes is unknown.
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

  // The rank of its service tier; the Open is whole.
  int rank() const {
    return rank_of(session_ != nullptr ? session_->opened().service_tier
                                       : assembly_->open().service_tier);
  }
  // The stream as fairness.h compares it. It waits for a place, or has a session.
  PlaceSeeker place_seeker(StreamId id) const {
    return {.stream = id,
            .group = group(),
            .rank = rank(),
            .waits = waits_.has_value(),
            .first = waits_ && waits_->first,
            .since = waits_ ? waits_->since : TimePoint{},
            .due = waits_ ? name_.owner.due.value_or(waits_->since + kDueAnyway) : TimePoint{}};
  }
  // It holds memory.
  MemoryHolder memory_holder(StreamId id, TimePoint now) const {
    return {.stream = id,
            .rank = rank(),
            .wants = wants_device(now),
            .has_had_verdict = has_had_verdict_};
  }
  const SessionName& name() const { return name_; }
  // The target's level that its Open names. Before memory is leased.
  void set_level(std::size_t level) { name_.level = level; }
  const std::string& group() const { return name_.owner.group; }
  // Null before Open and after retire().
  const VerifySession* session() const { return session_.get(); }
  // Adds its session, which ends: its usage, and how it finished; one that broke off is an error.
  void add_session(SchedulerStats& stats) const;
  void add_reports(SchedulerStats& stats) const;

 private:
  SessionName name_;  // its key comes with Open
  const PassHooks hooks_;
  TimePoint last_active_;  // when the answer came on, on either side
  std::uint64_t joined_ = 0;
  std::uint64_t served_ = 0;
  std::optional<OpenAssembly> assembly_;
  std::optional<Waits> waits_;
  Duration told_limit_{0};
  std::optional<double> joules_ = 0.0;
  std::unique_ptr<VerifySession> session_;
  TokenChoice choice_;            // the session's
  KvPool::Lease lease_;           // the session's cache
  bool has_had_verdict_ = false;  // it has had a verdict since it last began to read its text
  TimePoint told_progress_;
  ChosenWalk walk_;  // of a pass that was computed and is not finished
};

using VerifyStreams = std::map<StreamId, VerifyStream>;

}  // namespace outrider
