// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/exit_forger.h"

#include <algorithm>

namespace outrider {

void ExitForger::add_exits(Opened& opened) const {
  if (manner_ == ExitManner::kNone) return;
  for (std::int32_t exit = 0; exit < kExits; ++exit) opened.exits.push_back(exit + 1);
}

std::vector<ExitReport> ExitForger::reports(const Started& started, const MirroredTree& tree,
                                            std::span<const TokenId> rest,
                                            std::int32_t vocab_size) {
  std::vector<ExitReport> reports;
  if (manner_ == ExitManner::kNone) return reports;
  for (std::int64_t left = random_.between(0, kExits); left > 0; --left) {
    reports.push_back(manner_ == ExitManner::kHelpful ? helpful(started, tree, rest, vocab_size)
                                                      : hostile(started, tree, vocab_size));
  }
  return reports;
}

ExitReport ExitForger::helpful(const Started& started, const MirroredTree& tree,
                               std::span<const TokenId> rest, std::int32_t vocab_size) {
  ExitReport report{.pass = started.pass, .seq = ++seq_};
  report.exit = static_cast<std::int32_t>(random_.below(kExits));
  report.confidence = static_cast<std::uint8_t>(random_.below(256));
  NodeIndex at = kRoot;
  std::size_t walked = 0;
  while (walked + 1 < rest.size()) {
    const NodeIndex next = tree.child(at, rest[walked]);
    const NodeId id = next == kNoNode ? 0 : tree.node(next).id;
    if (id == 0 || id > started.last_id || std::ranges::count(started.left_out, id) > 0) break;
    at = next;
    report.leaf_id = id;
    ++walked;
  }
  report.next_token =
      random_.chance(0.3)
          ? static_cast<TokenId>(random_.below(static_cast<std::uint64_t>(vocab_size)))
          : rest[walked];
  return report;
}

ExitReport ExitForger::hostile(const Started& started, const MirroredTree& tree,
                               std::int32_t vocab_size) {
  ExitReport report;
  report.pass = started.pass + static_cast<std::uint32_t>(random_.below(3)) - 1;
  report.exit = static_cast<std::int32_t>(random_.between(-2, kExits + 1));
  report.leaf_id = random_.chance(0.1)
                       ? 0xffffffffu
                       : static_cast<NodeId>(random_.below(tree.ids().next_id() + 2));
  report.next_token = static_cast<TokenId>(random_.between(-1, vocab_size));
  report.confidence = static_cast<std::uint8_t>(random_.below(256));
  report.seq = random_.chance(0.02) ? 0xfffffff0u : static_cast<std::uint32_t>(random_.below(400));
  return report;
}

}  // namespace outrider
