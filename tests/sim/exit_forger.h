// Early exits for a simulated target that has none: puts reports among the messages that an edge
// hears. Helpful ones name the true outcome, or one near it, with any confidence; hostile ones are
// anything at all.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/decoding/protocol/messages.h"
#include "common/decoding/tree/mirrored_tree.h"
#include "sim/simulation.h"

namespace outrider {

enum class ExitManner : std::uint8_t { kNone, kHelpful, kHostile };

class ExitForger final {
 public:
  static constexpr std::int32_t kExits = 3;

  ExitForger(SeededRandom& random, ExitManner manner) : random_(random), manner_(manner) {}

  // A new stream: reports are numbered anew.
  void restart() { seq_ = 0; }
  void add_exits(Opened& opened) const;

  // Reports about a pass that has started. tree: the edge's; rest: what the target will say.
  std::vector<ExitReport> reports(const Started& started, const MirroredTree& tree,
                                  std::span<const TokenId> rest, std::int32_t vocab_size);

 private:
  ExitReport helpful(const Started& started, const MirroredTree& tree,
                     std::span<const TokenId> rest, std::int32_t vocab_size);
  ExitReport hostile(const Started& started, const MirroredTree& tree, std::int32_t vocab_size);

  SeededRandom& random_;
  const ExitManner manner_;
  std::uint32_t seq_ = 0;
};

}  // namespace outrider
