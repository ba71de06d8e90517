// Many streams, one device: gives each session its turn, and all whose turn it is one pass.
//
// Turns go round among tenants, and among each one's streams. A pass takes along all that want the
// device and fit: those that await a verdict, and chunks of prompts. Each is charged by its rows.
// A session that has used more rows than its time allows waits until it is within its budget again.
// Sessions knows the streams, which of them are admitted, and which are over; Seating says which
// are in the next pass.
//
//   (connect | receive | disconnect | drain | tick)*  draft  start compute finish learn?
//
// Call order: between start() and finish() only compute(), and beside it draft_on(); messages wait
// outside. Events pile up for take_events(). Time is an argument; the model runs inside compute()
// only.
// Thread rule: owned by one thread; draft_on() may run on another while compute() does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/decoding/costs/pass_costs.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/verify/exits/branch_pruner.h"
#include "common/decoding/verify/exits/exit_probe.h"
#include "common/decoding/verify/scheduling/pass_runner.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/decoding/verify/scheduling/seating.h"
#include "common/decoding/verify/scheduling/sessions.h"
#include "common/decoding/verify/server_drafts/model_draft.h"
#include "common/engine/model/model.h"

namespace outrider {

class Scheduler final {
 public:
  Scheduler(Model& model, const SchedulerOptions& options);

  // session_id: the name that the stream's session will have; not to be guessed by others.
  void connect(StreamId stream, std::string session_id, TimePoint now, PassHooks hooks = {},
               StreamOwner owner = {});
  // Messages of an unknown stream are late ones: ignored.
  void receive(StreamId stream, const EdgeMessage& message, TimePoint now);
  // No event of the stream follows; its KV is kept.
  void disconnect(StreamId stream, TimePoint now = {});
  // Ends the stream from outside the protocol.
  void end_stream(StreamId stream, const Status& status, TimePoint now = {});
  // Warns every session, refuses every later Open.
  void drain() { sessions_.drain(); }
  // Ends the streams that have not come on for idle_timeout, and Opens of which no piece came for
  // open_timeout; drops caches that were kept for too long.
  void tick(TimePoint now);

  // The engine's method of this name.
  void begin_pruning_with(const EdgeChance::Weights& weights) {
    if (pruner_) pruner_->begin_with(weights);
  }

  // When to call tick() and start() again if nothing happens before: a time in the past means now.
  std::optional<TimePoint> wake_at() const { return sessions_.wake_at(); }

  // Before start(): lets the draft model guess, if there is one. Blocks for as long as it works.
  void draft(const Clock& clock);
  // Begins the next turn: who rides. False if no session wants the device at `now`.
  bool start(TimePoint now);
  // Runs it. Blocks for as long as the model works.
  void compute();
  // Lets the draft model guess on until about the pass's end, if it has cores of its own. Blocks
  // for as long.
  void draft_on(const Clock& clock);
  // Ends it; its verdicts are events.
  void finish(TimePoint now);
  // Takes in what was learnt from it about the device. For when its verdicts have left, as edges
  // wait for those; tick() and start() do it otherwise.
  void learn();
  // The streams that the last turn served.
  std::span<const StreamId> last_served() const { return last_served_; }

  std::vector<StreamEvent> take_events() { return sessions_.take_events(); }
  std::vector<SessionRecord> take_records() { return sessions_.take_records(); }
  // The stream's session, to look at; null before Open and after the end.
  const VerifySession* session(StreamId stream) const { return sessions_.session(stream); }
  SchedulerStats stats() const;
  // Null: there is none, or it failed.
  const ModelDraft* model_draft() const { return model_draft_ ? &*model_draft_ : nullptr; }

 private:
  // A turn between start() and finish().
  struct Turn {
    std::vector<Rider> riders;
    TimePoint started;
    std::optional<double> joules_before;
  };

  // The cost of a turn that is over.
  struct TurnCost {
    Duration took{0};
    std::size_t rows = 0;               // of all riders
    std::optional<double> joules = {};  // nothing: the device does not tell
    std::size_t rows_before = 0;        // of the riders that were charged already
  };

  // The figures of the last turn that learn() uses.
  struct TurnFigures {
    std::size_t rows;
    Duration took;
    TimePoint ended;
    bool went_well;  // for anybody
    bool reads;      // a prompt, or a text again
    bool exits;
  };

  void choose(std::span<Rider> riders);
  void count_turn(const Turn& turn, const TurnCost& cost, TimePoint now);
  void finish_rider(const Rider& rider, TurnCost& cost, TimePoint now);
  void announce_pass_limit(TimePoint now);
  void count_idle(std::span<const Rider> riders, TimePoint now);
  void forget_drafts(TimePoint now);
  void expect_pass(std::span<const Rider> riders, TimePoint now);
  void check_draft(const Status& status);

  std::optional<double> joules() const { return joules_ ? joules_() : std::nullopt; }

  const std::int32_t vocab_size_;
  const Duration pass_limit_;
  const std::function<std::optional<double>()> joules_;
  Sessions sessions_;
  Seating seating_{sessions_};
  PassRunner runner_;
  std::optional<ExitProbe> probe_;      // if the target has exits
  std::optional<BranchPruner> pruner_;  // if it shall prune, too
  std::optional<ModelDraft> model_draft_;
  Status drafted_on_;      // what came of draft_on()
  TimePoint pass_ends_{};  // about
  std::atomic<bool> pass_over_{true};
  std::vector<StreamId> last_served_;
  Duration slowest_turn_{0};  // lately

  std::optional<Turn> turn_;
  std::optional<TurnFigures> finished_turn_;

  std::uint64_t passes_ = 0;
  std::uint64_t device_passes_ = 0;
  std::uint64_t failed_in_a_row_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t prompt_rows_ = 0;
  Duration compute_{0};
  Duration idle_{0};
  Duration drafted_{0};   // since the last turn
  TimePoint last_end_{};  // of a turn; no time has passed before the first
  PassCostBook costs_;
};

}  // namespace outrider
