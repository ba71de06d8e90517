// A draft model beside the target: before a pass it guesses a chain for each session that is about
// to ride and whose edge has sent nothing. All chains grow side by side, so that a step of the
// draft serves many sessions.
//
// A step is run for those sessions, and only if, what they are likely to win by it is worth the
// time that it takes from all: as the market says for rows (market.h). So a draft that is too slow
// for this target, or guesses too badly, rests; every so often it is tried again.
//
//   (forget_unless draft)*
//
// Thread rule: the compute thread. Ownership: the model outlives it and is used by nobody else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "common/protocol/pass_costs.h"
#include "common/sampling/guess.h"
#include "common/verify/market.h"
#include "common/verify/scheduler_types.h"

namespace outrider {

class VerifySession;

class ModelDraft final {
 public:
  // calibration: what its guesses were worth before. max_bytes: of the draft's keys and values for
  // all sessions; those that have not drafted for the longest time give up theirs. 0: no bound.
  ModelDraft(Model& model, const GuessCalibration& calibration, std::int64_t max_bytes);

  struct Client {
    StreamId stream = 0;
    VerifySession* session = nullptr;  // VerifySession::may_draft()
    double weight = 1;                 // of its tokens
  };
  // What time is worth: weighted tokens per second that all get, and seconds that one more row of
  // the target's next pass takes.
  struct Worth {
    double price = 0;
    double row_seconds = 0;
    std::size_t sessions = 0;  // that wait meanwhile
    double pass_seconds = 0;   // of their pass without drafts
  };

  // Adds nodes to the sessions' trees. Blocks while the draft computes. A session for which there
  // is no memory, or whose text the draft cannot read, gets none. An error, of the model, leaves
  // what was added; the draft is in no defined state and must not be used again.
  Status draft(std::span<const Client> clients, const Worth& worth, const Clock& clock);
  // Drops what it holds for streams whose sessions are over.
  void forget_unless(const std::function<bool(StreamId)>& lives) {
    std::erase_if(lanes_, [&](const auto& entry) { return !lives(entry.first); });
  }

  Duration compute() const { return compute_; }
  const GuessCalibration& calibration() const { return calibration_; }

 private:
  // A token of the chain behind the text, and its row.
  struct Link {
    TokenId token = 0;
    float stated = 0;       // by the model: that it stands if those before do
    Slot slot = kRootSlot;  // kRootSlot: its row was not run
  };
  struct Lane {
    std::unique_ptr<KvCache> cache;
    std::vector<Link> chain = {};
    std::size_t base = 0;    // length of the text that it hangs behind
    std::uint64_t used = 0;  // the last draft() that it took part in
    std::int32_t node = -1;  // the end of the chain in the session's tree; kRoot: none yet
    double chance = 1;       // that the whole chain stands
    double weight = 1;
    VerifySession* session = nullptr;
    bool reads = false;    // its text is not read to the end
    bool foreign = false;  // it has a token that the draft does not know
  };

  Lane* lane_of(const Client& client);
  bool make_room(const Client& client);
  std::int64_t bytes() const;
  void settle(Lane& lane);
  bool pays(std::vector<Lane*>& lanes, const Worth& worth) const;
  bool pays_to_read(const Client& client, const Worth& worth) const;
  Status add_rows(Lane& lane, std::size_t& reading_left);
  Status step(std::span<Lane* const> lanes, const Clock& clock);
  void grow(Lane& lane, std::size_t row);

  Model& model_;
  const std::int64_t max_bytes_;
  std::map<StreamId, Lane> lanes_;
  GuessCalibration calibration_;
  double typical_ = 0.6;         // the chance of a guess, lately
  double read_row_seconds_ = 0;  // of a token that is read, lately; 0: none was
  PassCostBook costs_;           // of steps, by their rows
  PassCurve curve_;
  std::uint64_t drafts_ = 0;
  Duration compute_{0};
  std::vector<Row> rows_;
  PassOutput output_;
};

}  // namespace outrider
