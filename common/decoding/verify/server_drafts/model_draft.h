// A draft model beside the target: before a pass it guesses a chain for each session that is about
// to ride. All chains grow side by side, so that a step of the draft serves many sessions.
//
// A step is run for those sessions, and only if, what they are likely to win by it is worth the
// time that it takes from all: as the market says for rows (market.h). What that is, shows what
// earlier steps have brought (draft_experience.h) beyond what the edge or look-up had guessed
// before. So a draft that is too slow for this target, or guesses too badly for this text, rests. A
// session that rests is tried again now and then: all such steps together take one part in a
// hundred of what passes do.
//
// Its keys and values lie in a pool as the target's do (kv_pool.h): a prompt that begins as one of
// the same tenant's is not read again. Under a tight bound the sessions that have not drafted for
// the longest time give up theirs.
//
// With cores of its own it goes on while the target's pass runs, with each chain as if it stood: of
// what the verdict then says the rest of the chain is there at once.
//
//   (draft [draft_on] | forget)*
//
// Thread rule: the compute thread; draft_on() may run beside a pass. Ownership: the model outlives
// it and is used by nobody else. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/costs/row_curve.h"
#include "common/decoding/verify/memory/kv_pool.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/decoding/verify/server_drafts/draft_experience.h"
#include "common/engine/model/model.h"

namespace outrider {

class VerifySession;

class ModelDraft final {
 public:
  // experience: what it has shown before. kv, sessions: for its keys and values, as KvPool says;
  // the capacity of a cache is the draft's context.
  ModelDraft(Model& model, const DraftExperience& experience, const KvPoolOptions& kv,
             std::uint32_t sessions);

  struct Client {
    StreamId stream = 0;
    VerifySession* session = nullptr;    // VerifySession::may_draft()
    const StreamOwner* owner = nullptr;  // of the stream
    double weight = 1;                   // of its tokens
  };
  // The worth of time: weighted tokens per second that all get, and seconds that one more row of
  // the target's next pass takes.
  struct Worth {
    double price = 0;
    double row_seconds = 0;
    std::size_t sessions = 0;  // that wait meanwhile
    double pass_seconds = 0;   // of their pass without drafts
  };

  // Adds nodes to the sessions' trees. Blocks while the draft computes. A session for which there
  // is no memory left, or whose text the draft cannot read, gets none. An error, of the model or
  // because it has no memory at all, leaves what was added; the draft is in no defined state and
  // must not be used again.
  Status draft(std::span<const Client> clients, const Worth& worth, const Clock& clock);
  // While the pass runs that follows on draft(): until about then, or it is over. The sessions'
  // trees are not changed, and must not be meanwhile. Errors: as draft().
  Status draft_on(TimePoint until, const std::atomic<bool>& over, const Clock& clock);
  // Drops what it holds for streams that are over, and what was unused for too long.
  void forget(const std::function<bool(StreamId)>& lives, TimePoint now);

  Duration compute() const { return compute_; }
  std::int64_t kv_bytes() const { return pool_.used_bytes(); }
  std::int64_t kv_bytes_bound() const { return pool_.bound_bytes(); }
  const DraftExperience& experience() const { return experience_; }

 private:
  // A token of the chain behind the text, and its row.
  struct Link {
    TokenId token = 0;
    float stated = 0;       // by the model: that it stands if those before do
    float chance = 0;       // the same, by experience
    float covered = 0;      // ChainStep::covered
    bool repeats = false;   // a node that was there
    bool free = false;      // it was guessed while a pass ran
    Slot slot = kRootSlot;  // kRootSlot: its row was not run
  };
  static constexpr double kSessionChains = 33;  // by which a session is judged
  struct Lane {
    KvPool::Lease lease;
    std::vector<Link> chain = {};
    std::size_t base = 0;     // length of the text that it hangs behind
    std::uint64_t used = 0;   // the last draft() that it took part in
    std::uint64_t tried = 0;  // the last one that ran a step for it
    std::int32_t node = -1;   // the end of the chain in the session's tree; kRoot: none yet
    double chance = 1;        // that the whole chain stands
    double weight = 1;
    double gain = 0;  // of its next step, in weighted tokens
    DraftGains gains{kSessionChains};
    VerifySession* session = nullptr;
    bool reads = false;    // its text is not read to the end
    bool foreign = false;  // it has a token that the draft does not know
  };

  using Lanes = std::map<StreamId, Lane>;

  Result<Lane*> lane_of(const Client& client, TimePoint now);
  Lanes::iterator drop(Lanes::iterator at);
  bool reserve(Lane& lane, std::size_t rows);
  void settle(Lane& lane, TimePoint now);
  std::size_t learn(Lane& lane);
  void add_nodes(Lane& lane);
  static std::size_t unread(const Lane& lane);
  static float covered(const Lane& lane);
  double gain_of(const Lane& lane, const Worth& worth) const;
  bool pays_to_read(const Lane& lane, const Worth& worth) const;
  std::size_t paying(std::span<Lane*> lanes, const Worth& worth) const;
  std::size_t probed(std::span<Lane*> resting, const Worth& worth);
  bool is_at_end(const Lane& lane) const;
  bool add_rows(Lane& lane, std::size_t& reading_left);
  Status step(std::vector<Lane*>& lanes, const Clock& clock, bool in_pass = false);
  void grow(Lane& lane, std::size_t row, bool in_pass);

  Model& model_;
  const Position context_;
  KvPool pool_;
  Lanes lanes_;
  DraftExperience experience_;
  RowCurve curve_;            // of its steps, in seconds
  double probe_seconds_ = 0;  // that may be spent on sessions that rest
  std::uint64_t drafts_ = 0;
  Duration compute_{0};
  std::vector<Row> rows_;
  PassOutput output_;
  std::vector<float> adjusted_;  // reused from row to row
};

}  // namespace outrider
