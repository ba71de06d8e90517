// The streams of one verifier and their sessions: gathers Opens, admits within bounds, ends what is
// over. Which of them are in the next pass is for Seating to say (seating.h). Runs nothing.
//
// At most max_concurrent_sessions (of equal or greater urgency) and kv.max_bytes; the next Opens
// wait in a queue, and beyond it they are told to come back. A stream that replaces a session takes
// its place, whether that still lives (a link that died unnoticed) or not.
//
// Thread rule: owned by the scheduler's thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/verify/memory/kv_pool.h"
#include "common/decoding/verify/memory/tenant_texts.h"
#include "common/decoding/verify/scheduling/fairness.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/decoding/verify/session/target.h"
#include "common/decoding/verify/session/verify_stream.h"
#include "common/engine/model/model.h"

namespace outrider {

class Sessions final {
 public:
  using Streams = VerifyStreams;

  Sessions(Model& model, const SchedulerOptions& options);

  // Called by the scheduler; not between the start and the end of a pass.
  void connect(StreamId stream, std::string session_id, TimePoint now, PassHooks hooks,
               StreamOwner owner);
  void receive(StreamId id, const EdgeMessage& message, TimePoint now);
  void disconnect(StreamId stream, TimePoint now);
  void end_stream(StreamId stream, const Status& status, TimePoint now);
  void drain();
  void tick(TimePoint now);
  std::optional<TimePoint> wake_at() const;

  // Opens sessions as far as there is room; refuses those beyond what may wait.
  void admit_waiting(TimePoint now);
  // The session can never have the memory that its next pass needs: it ends.
  void starve(StreamId id, const Status& why, TimePoint now);
  Streams& streams() { return streams_; }
  Streams::iterator find(StreamId stream) { return streams_.find(stream); }
  KvPool& pool() { return pool_; }
  // The texts that the tenants' earlier sessions left, to look up in.
  TenantTexts& texts() { return texts_; }
  // Hands out what the session has to say.
  void flush(StreamId id, VerifyStream& stream);
  // Its pass is done, and the session went on with it. decided: it gave a verdict.
  void finished_pass(Streams::iterator at, bool decided, TimePoint now);
  // Its pass failed.
  void break_off(Streams::iterator at, const Status& why, TimePoint now);
  // The limit and the costs that edges get from now on; 0: none.
  void set_pass_limit(Duration limit) { pass_limit_ = limit; }
  void set_pass_costs(PassCosts costs) { pass_costs_ = std::move(costs); }

  std::vector<StreamEvent> take_events() { return std::exchange(events_, {}); }
  // The records of sessions that are over, for on_session_end.
  std::vector<SessionRecord> take_records() { return std::exchange(records_, {}); }
  const VerifySession* session(StreamId stream) const;
  // Passes, rows, compute and preemptions are the scheduler's to count.
  SchedulerStats stats() const;

  const SchedulerOptions& options() const { return options_; }

 private:
  // The level that answers the stream.
  const Target& target_of(const VerifyStream& stream) const {
    return targets_[stream.name().level];
  }
  Status receive_unopened(Streams::iterator at, const EdgeMessage& message, TimePoint now);
  Status begin_opening(Streams::iterator at, const EdgeMessage& message, TimePoint now);
  Status wait_for_place(Streams::iterator at, TimePoint now);
  bool has_place_for(const VerifyStream& waiting) const;
  Status open_session(Streams::iterator at, TimePoint now);
  std::vector<PlaceSeeker> place_seekers() const;
  void refuse(Streams::iterator at, const Status& why, const std::string& inner, TimePoint now);
  std::vector<TokenId> known_prefix(const SessionName& wanted, const Open& open);
  Streams::iterator find_session(const SessionName& wanted);
  bool too_many_unopened(const std::string& group) const;
  std::optional<StreamId> gathered_too_much(const std::string& group) const;
  void bound_gathered(std::string group, TimePoint now);
  // Tells the edge when to come back, and returns why.
  Status overloaded(StreamId id, const std::string& why);

  // Ends the stream; its session, if it has one, is over with it.
  void close(Streams::iterator at, const Status& status, TimePoint now);
  void end_session(const VerifyStream& stream, TimePoint now);
  void retire(VerifyStream& stream, TimePoint now);
  void end_without_memory(Streams::iterator at, const Status& told, const std::string& inner,
                          TimePoint now);

  const SchedulerOptions options_;
  const std::vector<Target> targets_;  // by level
  KvPool pool_;
  TenantTexts texts_;
  Streams streams_;
  std::size_t sessions_open_ = 0;
  std::set<StreamId> unopened_;  // streams without a session: those that gather, and that wait
  PlaceTurns place_turns_;
  std::size_t waiting_ = 0;        // of those, the ones whose Open waits for a place
  bool room_may_be_free_ = false;  // since the last look: a session has ended
  bool draining_ = false;
  Duration pass_limit_{0};
  PassCosts pass_costs_;
  std::string why_short_;  // of memory: for the log, when the stream ends
  std::vector<StreamEvent> events_;
  std::vector<SessionRecord> records_;
  SchedulerStats stats_;
};

}  // namespace outrider
