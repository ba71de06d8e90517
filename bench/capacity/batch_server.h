// Other systems' schedulers as servers of the same light clients, at the same device's pace. What
// of a paper is our reading is said at its rule.
//
// A pass takes waiting work: rounds to verify, and prompts, whose last row brings the first token.
//
// Thread rule: one thread; next_batch() and batch_ms() are pure. Ownership: simulation, load and
// curve outlive it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "bench/capacity/crowd.h"
#include "common/base/enum_names.h"
#include "common/engine/model/emulated/pace.h"

namespace outrider {

enum class BatchKind : std::uint8_t {
  // Draft and target on the server's device, all that waits in one batch. The draft decodes gamma
  // tokens, so it keeps the device for gamma steps.
  kColocatedSteps,
  // The same with a draft that writes a block in one pass (DSpark's kind). Our simplification: its
  // tokens are as often right as a step by step draft's, and its verify length is fixed.
  kColocatedBlock,
  // SpecEdge: clients draft ahead. A pass starts when its batch is full. Our reading: also when
  // every session that decodes waits, as else the last ones would wait for ever.
  kStatic,
  // SpecEdge: a pass takes what waits.
  kDynamic,
  // DiP-SD: sessions belong to batches, which are verified in turn while the others' clients draft.
  // Our reading: as all sessions are alike, the best assignment deals them out evenly, all draft
  // lengths are one, and there are as few batches as the row limit allows, which is searched.
  kPipelined,
};

struct BatchRule {
  BatchKind kind = BatchKind::kDynamic;
  int gamma = 4;
  std::int64_t max_rows = 64;
  double draft_share = 0;  // co-located: a draft's pass over a target's of as many rows

  bool drafts_on_server() const {
    return kind == BatchKind::kColocatedSteps || kind == BatchKind::kColocatedBlock;
  }
};

// Work that waits: a prompt, or a round.
struct BatchWork {
  RequestId request;
  int prompt = 0;    // tokens still to be read; 0: it is a round
  int position = 0;  // of a round, in the answer
  int drafted = 0;   // tokens of a round

  std::int64_t rows() const { return prompt > 0 ? prompt : drafted + 1; }
};

// A part of the waiting work that the next pass takes, first come first: its place and its rows. A
// prompt may be read in parts. Empty: the device waits.
struct BatchPart {
  std::size_t index = 0;
  std::int64_t rows = 0;
};
// decoding: the clients of all sessions past their prompt. turn: which batch is next; kPipelined.
std::vector<BatchPart> next_batch(const BatchRule& rule, std::span<const BatchWork> waiting,
                                  std::span<const std::size_t> decoding, std::size_t turn);

// The batches of kPipelined for so many sessions.
std::size_t pipelined_batches(const BatchRule& rule, std::size_t sessions);

// How long a pass of these rows takes, with the drafting that it waits for. rounds: of them, each
// with gamma drafted tokens.
double batch_ms(const BatchRule& rule, const PaceCurve& pass, std::int64_t rows,
                std::int64_t rounds);

class BatchServer final : public CrowdServer {
 public:
  BatchServer(Simulation& simulation, const ClientLoad& load, const PaceCurve& pass,
              const BatchRule& rule);

  void open(const RequestId& request) override;
  void take(const CrowdRound& round) override;
  CrowdServerCounts counts() const override { return counts_; }
  Status status() const override { return {}; }

 private:
  void start();
  void finish(const std::vector<BatchWork>& batch);
  void decide(const BatchWork& work);

  Simulation& simulation_;
  const ClientLoad& load_;
  const PaceCurve& pass_;
  const BatchRule rule_;
  std::deque<BatchWork> waiting_;
  std::vector<std::size_t> decoding_;  // clients, ascending
  bool busy_ = false;
  std::size_t turn_ = 0;
  CrowdServerCounts counts_;
};

}  // namespace outrider
