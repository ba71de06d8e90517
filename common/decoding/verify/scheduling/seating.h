// Chooses the riders of the next pass: sessions in the order of their turns (fairness.h), with
// those of their nodes that are worth their time (market.h) and with memory for their rows. Runs
// nothing.
//
// Thread rule: owned by the scheduler's thread. Ownership: the sessions outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/costs/pass_costs.h"
#include "common/decoding/verify/scheduling/fairness.h"
#include "common/decoding/verify/scheduling/market.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/decoding/verify/scheduling/sessions.h"
#include "common/decoding/verify/server_drafts/model_draft.h"
#include "common/decoding/verify/session/verify_stream.h"

namespace outrider {

class Seating final {
 public:
  explicit Seating(Sessions& sessions)
      : sessions_(sessions),
        options_(sessions.options()),
        streams_(sessions.streams()),
        of_text_(options_.pass_costs),
        with_prompts_(options_.pass_costs) {}

  // Begins the pass of all that want the device and may have it, as far as max_batched_rows goes:
  // who no longer fits comes first in the next. Each has memory for its pass; sessions for which
  // there will never be any are ended. Empty: nobody rides.
  std::vector<Rider> next_pass(TimePoint now);
  // Before next_pass(): lets the draft model guess for those who may ride, beside what look-up has
  // guessed. Errors: the model's.
  Status draft(ModelDraft& draft, const Clock& clock) const;
  // It is over: what each group had of it.
  void charge(std::span<const Rider> riders);
  // Learns the time of a pass of this number of rows that ended then. reads: a prompt, or a text
  // again.
  void learn(std::size_t rows, bool reads, Duration took, TimePoint ended);

  // The number of the last turn that somebody had.
  std::uint64_t turns() const { return turns_; }
  // How many passes a session may have to wait for its next, at the most: each serves the first in
  // the order of turns.
  std::size_t longest_wait(TimePoint now) const { return longest_round(turn_seekers(now)); }
  std::uint64_t preemptions() const { return preemptions_; }

 private:
  struct Candidate {
    StreamId stream;
    PassBounds bounds;
    RowOffer offer;
  };

  // The times of passes, and the rows of the last one.
  struct Passes {
    explicit Passes(const PassCostBook& before) : costs(before), curve(costs.curve()) {}
    void add(std::size_t rows, Duration took);

    PassCostBook costs;
    RowCurve curve;
    std::size_t last_rows = 0;
  };
  // Those that are like the next: who rides may read a prompt.
  const Passes& passes(bool reads) const { return reads ? with_prompts_ : of_text_; }

  void draft_without_model(TimePoint now) const;
  using Worth = ModelDraft::Worth;
  Worth worth(TimePoint now) const;
  double price(TimePoint now) const;
  static bool is_trial(std::uint64_t pass) { return pass % kPassesPerTrial == 0; }
  static bool is_without_drafts(std::uint64_t pass) {
    return pass % kPassesPerTrial == kPassesPerTrial / 2;
  }
  std::vector<Candidate> candidates(const std::set<StreamId>& without_memory, TimePoint now) const;
  bool may_have_turn(const VerifyStream& stream, TimePoint now) const;
  std::vector<TurnSeeker> turn_seekers(TimePoint now) const;
  std::size_t awaiting(std::span<const TurnSeeker> seekers) const;
  std::size_t prompt_tokens(const VerifyStream& stream, std::span<const TurnSeeker> seekers,
                            std::size_t awaited, std::size_t rows) const;
  double weight(const VerifyStream& stream) const;
  static bool reads_prompt(std::span<const Candidate> candidates);
  RowBounds row_bounds(std::span<const Candidate> candidates, TimePoint now);
  bool take_memory(const Candidate& candidate, std::span<const Rider> riders, TimePoint now);

  // Every so many passes rows cost nothing, up to twice as many as before, and another one carries
  // the texts alone, without a node: so that it stays known what passes of more rows take, and of
  // few.
  static constexpr std::uint64_t kPassesPerTrial = 256;

  Sessions& sessions_;
  const SchedulerOptions& options_;  // the sessions'
  VerifyStreams& streams_;           // the sessions'
  std::uint64_t turns_ = 0;
  std::uint64_t preemptions_ = 0;

  // The costs that the market uses. A prompt's rows cost their time for other reasons than rows of
  // text, and its first pass here is the slowest: they say nothing about a pass that reads none.
  // Where something is always read, all passes count.
  Passes of_text_;
  Passes with_prompts_;
  DeviceShares shares_;
  double busy_ = 0;  // the part of the time lately that the device worked
  std::optional<TimePoint> last_end_;
  std::uint64_t number_ = 0;  // of the last pass
};

}  // namespace outrider
