// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/exit_reports.h"

namespace outrider {
namespace {

// The node where the exit's walk ends; kNoNode if that is no node of the pass.
NodeIndex leaf_of(const ExitReport& report, const StreamView& view) {
  if (report.leaf_id == 0) return kRoot;
  const IdLedger& ids = view.tree.ids();
  if (report.leaf_id >= ids.next_id() || !pass_took(*view.started, report.leaf_id)) return kNoNode;
  const IdState state = ids.state(report.leaf_id);
  return state.kind == IdState::Kind::kLiving ? state.node : kNoNode;
}

}  // namespace

std::optional<ExitAdvice> read_report(const ExitReport& report, std::uint32_t last_seq,
                                      const StreamView& view) {
  if (!view.started || report.pass != view.started->pass) return std::nullopt;
  if (report.seq <= last_seq) return std::nullopt;
  const auto exits = static_cast<std::int32_t>(view.opened.exits.size());
  if (report.exit < 0 || report.exit >= exits) return std::nullopt;
  if (report.next_token < 0 || report.next_token >= view.opened.limits.vocab_size) {
    return std::nullopt;
  }
  const NodeIndex leaf = leaf_of(report, view);
  if (leaf == kNoNode) return std::nullopt;
  const Position at = leaf == kRoot ? view.tree.end() : view.tree.node(leaf).position + 1;
  if (at >= view.end_position) return std::nullopt;
  const NodeIndex next = view.tree.child(leaf, report.next_token);
  if (next != kNoNode) {
    const NodeId id = view.tree.node(next).id;
    if (id != 0 && pass_took(*view.started, id)) return std::nullopt;  // the walk would go on
  }
  return ExitAdvice{.leaf = leaf,
                    .token = report.next_token,
                    .probability = report.confidence / 255.0,
                    .exit = report.exit};
}

}  // namespace outrider
