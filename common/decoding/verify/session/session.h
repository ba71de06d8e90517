// Decides for one verifying stream (docs/protocol.md): takes the edge's messages, the device's
// choices and a time; says when to run a pass, over which rows, and which messages the edge gets.
// Holds neither model nor link nor clock.
//
//   session(open) (on_message | start finish)*        until finished() or an error
//
// Call order: no message is handed in between start() and finish(); the owner keeps it waiting.
// That changes nothing that an edge can see: a node gets the state that its path gives it, before
// a commit and after.
// Thread rule: owned by one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/tree/mirrored_tree.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/decoding/verify/server_drafts/form_draft.h"
#include "common/decoding/verify/server_drafts/look_up_draft.h"
#include "common/decoding/verify/session/pass_plan.h"
#include "common/decoding/verify/session/target.h"
#include "common/engine/sampling/guess.h"
#include "common/engine/sampling/row_adjuster.h"

namespace outrider {

// Keeps what a record needs while the session lives, and how fast it comes on.
class SessionRecorder final {
 public:
  explicit SessionRecorder(TimePoint opened) : opened_(opened) {}

  void add_queued(Duration time) { queued_ += time; }
  // A pass over these nodes ended, of which `accepted` became text and one token more, and of those
  // `own` were this side's. computed: so far, in all.
  void add_pass(const PassPlan& plan, std::size_t accepted, std::size_t own, Duration computed,
                TimePoint now);
  SessionRecord record(const Usage& usage, TimePoint now) const;
  // Between the last two verdicts; nothing if there were not two.
  std::optional<Duration> last_gap() const { return last_gap_; }
  // A pass had nodes of the edge's.
  bool drafts() const { return draft_.tokens > draft_.own_tokens; }
  // Lately; it falls while no verdict comes. 0 before the second one.
  double tokens_per_s(TimePoint now) const;

 private:
  static constexpr double kKeepRate = 0.9;  // about ten verdicts count

  TimePoint opened_;
  std::optional<TimePoint> last_verdict_;
  std::optional<Duration> last_gap_;
  DraftCounts draft_;
  Duration to_first_token_{0};
  Duration prefill_{0};
  Duration queued_{0};
  double recent_tokens_ = 0;  // from verdict to verdict, older ones counted less
  double recent_seconds_ = 0;
};

class VerifySession final {
 public:
  struct Setup {
    std::string session_id;
    Position cached = 0;  // prefix positions whose keys and values are there; < prefix.size()
    std::uint32_t prefill_chunk = 1;  // >= 1
  };

  // open: has passed check_open(). Opened is the first message out.
  VerifySession(const Open& open, const Target& target, Setup setup, TimePoint now);

  // Anything but Open. An error ends the stream; messages after the end are ignored.
  Status on_message(const EdgeMessage& message, TimePoint now);

  // When the session wants the device: a time in the past means now, one in the future is a timer,
  // none means that only a message can change it.
  std::optional<TimePoint> runnable_at() const;

  // Text is read before the next verdict: the prompt, or all of it after keys and values were lost.
  bool is_prefilling() const { return next_pass_ == 0 || missing() > 1; }
  // Log-probabilities of the prompt's tokens are wanted that no pass has given yet.
  bool is_scoring() const { return scored_end_ < prefix_end_ - 1; }
  // The beginning of the text whose keys and values may come from others, its last token excepted:
  // all of it, or as much as needs not be computed for its logits.
  std::span<const TokenId> reusable_text() const {
    return is_scoring() ? tree_.text().first(static_cast<std::size_t>(scored_end_) + 1)
                        : tree_.text();
  }
  // From now on only the first positions of the text, less than tree().end(), have keys and values.
  // Not while a pass is in work.
  void keep_cached(Position cached);
  // Adds nodes of this side's own that need no model, as far as the stream accepts them: what the
  // answer's form forces, and by look-up. They stand with at least this chance. shared: as
  // LookUpDraft::grow() says.
  void draft_without_model(double least_chance, const MatchFinder* shared = nullptr);
  bool drafts_without_model() const { return form_draft_ || look_up_; }
  // A draft model may add some: the stream accepts them.
  bool may_draft() const;
  // Adds one, which stands with at least this chance if its parent does; kNoNode if it would be of
  // no use.
  NodeIndex add_own(NodeIndex parent, const Guess& guess);
  // The most rows that start() would take now.
  std::size_t rows_at_most(const PassBounds& bounds) const;
  // The chances of the nodes that it would take without bounds, in falling order: each is the
  // chance that the node stands.
  std::vector<float> chances(const PassBounds& bounds) const;
  // Begins what runnable_at() asked for.
  PassPlan start(TimePoint now, const PassBounds& bounds = {});

  // The pass did not take this node of the plan to its end: it is as one that was not in the pass.
  void end_node(std::int32_t node);

  // Ends it: walks the tree by `choose`, commits, tells the edge. Returns the last node of the
  // plan that stands: its path keeps keys and values, all other nodes lose them; -1: none does.
  // readings: as far as the Open asked for them.
  std::int32_t finish(const Chooser& choose, const RiderTimes& times, TimePoint now,
                      PassReadings readings = {});

  // The walk that finish() would take with these choices, for a prediction of them. `plan` is the
  // one that start() gave, and its pass is not finished.
  PassWalk walk(const PassPlan& plan, const Chooser& choose) const {
    return walk_nodes(plan, tree_.end(), end_rule_, choose);
  }

  // The answer's settings, at the end of the committed text.
  const RowAdjuster& adjuster() const { return adjuster_; }
  // More is wanted of a row than the token that the model would choose.
  bool needs_logits() const { return adjuster_.adjusts() || open_.top_logprobs.has_value(); }

  // Messages to the edge, oldest first.
  std::vector<ServerMessage> take_messages() { return std::exchange(messages_, {}); }

  // Usage is out; the stream ends well.
  bool finished() const { return finished_; }

  const std::string& id() const { return setup_.session_id; }
  const Open& opened() const { return open_; }
  const MirroredTree& tree() const { return tree_; }
  const Limits& limits() const { return limits_; }
  const Usage& usage() const { return usage_; }
  // Rises with every message that brings the answer on: an acknowledgement of tokens, a living
  // node, a new request for a pass. Noise does not raise it.
  std::uint64_t progress() const { return progress_; }
  // The counts of the session so far.
  const SessionRecorder& recorder() const { return recorder_; }
  Position prefix_end() const { return prefix_end_; }

  // The committed tokens that have keys and values.
  std::span<const TokenId> cached_text() const {
    return tree_.text().first(static_cast<std::size_t>(cached_end_));
  }

 private:
  Status acknowledge(const EdgeMessage& message, TimePoint now);
  Status on_grow(const Grow& grow);
  Status on_policy(const Policy& policy, TimePoint now);
  void note_requests(TimePoint now);
  void add_scored(const PassPlan& plan, std::vector<TokenLogprobs> logprobs);
  void finish_with(FinishReason reason);
  bool paused() const;
  void take_nodes(PassPlan& plan, std::size_t most_nodes);
  void judge_confidences(const PassPlan& plan, const PassWalk& walked);
  RowBudget row_budget(std::size_t most_nodes) const;
  std::size_t missing() const { return static_cast<std::size_t>(tree_.end() - cached_end_); }
  std::size_t chunk_of(std::size_t most_tokens) const;
  // The choice after a node beyond would lie at the end: never wanted.
  Position last_node_position() const { return end_rule_.end_position - 2; }

  Open open_;  // its prefix has moved into tree_
  const Limits limits_;
  const Setup setup_;
  const Position prefix_end_;
  const EndRule end_rule_;

  MirroredTree tree_;
  RowAdjuster adjuster_;
  Policy policy_;
  const bool has_exits_;  // of its target
  Position cached_end_;  // committed positions with keys and values
  // The rows below it need no logits, for the log-probabilities of the prompt's tokens.
  Position scored_end_;
  std::vector<TokenLogprobs> scored_;  // of the last tokens of those, not told yet
  Position acked_;
  Position asked_at_ = -1;  // where the last empty Grow that was not stale asked for a pass
  std::uint32_t next_pass_ = 0;
  std::optional<PassPlan> plan_;  // in work
  bool finished_ = false;
  std::uint64_t progress_ = 0;

  TimePoint idle_since_;
  TimePoint policy_since_;
  TimePoint resumed_at_;                  // when the last pause ended
  std::optional<TimePoint> asked_since_;  // a living node hangs under the root, or a Grow asks
  PassTimings timings_;
  std::uint32_t pass_rows_ = 0;   // with the prefill's, in pass 0
  std::uint32_t batch_rows_ = 0;  // the same of all who rode

  Usage usage_;
  GuessCalibration stated_;              // what the edge's confidences have been worth
  std::optional<FormDraft> form_draft_;  // nothing: it does not draft so
  std::optional<LookUpDraft> look_up_;   // the same
  bool drafts_ = false;                  // nodes of this side's own are accepted
  SessionRecorder recorder_;
  std::vector<ServerMessage> messages_;
};

}  // namespace outrider
