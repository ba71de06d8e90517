// Early exits for a simulated target, in place of its own if it has some: puts reports among the
// messages that an edge hears. Helpful ones name the true outcome, or one near it, with any
// confidence; hostile ones are anything at all. Trained ones speak once per exit, are right as
// often as they say, and what an exit knows the later ones know too.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/protocol/messages.h"
#include "common/tree/mirrored_tree.h"
#include "tests/sim/simulation.h"

namespace outrider {

// kServer: nothing is forged; the edge hears the exits that the server has, if it has some.
enum class ExitManner : std::uint8_t { kNone, kHelpful, kHostile, kServer, kTrained };

class ExitForger final {
 public:
  static constexpr std::int32_t kExits = 3;

  ExitForger(SimRandom& random, ExitManner manner) : random_(random), manner_(manner) {}

  // A new stream: reports are numbered anew.
  void restart() { seq_ = 0; }
  // Names the exits that the edge will hear.
  void replace_exits(Opened& opened) const;

  // Reports about a pass that has started. tree: the edge's; rest: what the target will say.
  std::vector<ExitReport> reports(const Started& started, const MirroredTree& tree,
                                  std::span<const TokenId> rest, std::int32_t vocab_size);

  // The highest number given.
  std::uint32_t last_seq() const { return highest_; }

 private:
  std::vector<ExitReport> trained(const Started& started, const MirroredTree& tree,
                                  std::span<const TokenId> rest, std::int32_t vocab_size);
  ExitReport helpful(const Started& started, const MirroredTree& tree,
                     std::span<const TokenId> rest, std::int32_t vocab_size);
  ExitReport hostile(const Started& started, const MirroredTree& tree, std::int32_t vocab_size);

  SimRandom& random_;
  const ExitManner manner_;
  std::uint32_t seq_ = 0;
  std::uint32_t highest_ = 0;
};

}  // namespace outrider
