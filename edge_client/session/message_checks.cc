// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/message_checks.h"

#include <algorithm>
#include <bit>
#include <span>
#include <string>
#include <string_view>

#include "common/engine/sampling/row_digest.h"

namespace outrider {
namespace {

// Rows that a pass may have beyond one for each token of the text. Figures keep a count for each
// number of rows.
constexpr Position kMaxNodeRows = 4096;
// Rows of all the passes behind a verdict, of whichever sessions: a long prompt is read in many.
constexpr std::uint32_t kMaxBatchRows = 1u << 28;

// field: as the protocol names it, for those who mend the server.
Status wrong(std::string_view field, std::int64_t value, const std::string& expected) {
  return failed_precondition(
      "the server broke the protocol. Remedy: the same version on both sides; if it is the same, "
      "report this (" +
      std::string(field) + " " + std::to_string(value) + ", expected " + expected + ")");
}

bool is_stop(const Opened& opened, TokenId token) {
  return std::ranges::find(opened.stop_ids, token) != opened.stop_ids.end();
}

// All tokens but the last were walked along nodes of the pass: this edge's, or the server's own.
Status check_walk(const Verdict& verdict, const StreamView& view) {
  const std::size_t walked = verdict.tokens.size() - 1;
  const auto most = static_cast<std::size_t>(std::bit_width(verdict.server_nodes));
  if (most > (view.accepts_server_nodes ? walked : 0)) {
    return wrong("verdict.server_nodes with bit", static_cast<std::int64_t>(most) - 1,
                 view.accepts_server_nodes ? "at most " + std::to_string(walked) + " bits"
                                           : "none, as this edge accepts no nodes of the server's");
  }
  NodeIndex at = kRoot;
  for (std::size_t i = 0; i < walked; ++i) {
    if (at != kNoNode) at = view.tree.child(at, verdict.tokens[i]);
    if (i < kMarkedTokens && ((verdict.server_nodes >> i) & 1) != 0) continue;
    const NodeId id = at == kNoNode ? 0 : view.tree.node(at).id;
    if (id == 0 || !pass_took(*view.started, id)) {
      return wrong("verdict.tokens with", verdict.tokens[i],
                   "a node of pass " + std::to_string(verdict.pass) + " at position " +
                       std::to_string(verdict.position + static_cast<Position>(i)));
    }
  }
  return {};
}

// field: of the message that they are in.
Status check_likeliest(const std::string& field, std::span<const TokenLogprobs> logprobs,
                       const StreamView& view) {
  for (const TokenLogprobs& one : logprobs) {
    if (one.top.size() > *view.top_logprobs) {
      return wrong(field + ".top of length", static_cast<std::int64_t>(one.top.size()),
                   "at most " + std::to_string(*view.top_logprobs));
    }
    for (const Candidate& likely : one.top) {
      if (likely.token >= 0 && likely.token < view.opened.limits.vocab_size) continue;
      return wrong(field + ".top_tokens with", likely.token,
                   "0 to " + std::to_string(view.opened.limits.vocab_size - 1));
    }
  }
  return {};
}

// The node where the exit's walk ends; kNoNode if that is no node of the pass.
NodeIndex leaf_of(const ExitReport& report, const StreamView& view) {
  if (report.leaf_id == 0) return kRoot;
  const IdLedger& ids = view.tree.ids();
  if (report.leaf_id >= ids.next_id() || !pass_took(*view.started, report.leaf_id)) return kNoNode;
  const IdState state = ids.state(report.leaf_id);
  return state.kind == IdState::Kind::kLiving ? state.node : kNoNode;
}

}  // namespace

Status check_started(const Started& started, const StreamView& view) {
  if (view.started) {
    return wrong("started.pass", started.pass,
                 "the verdict of pass " + std::to_string(view.started->pass));
  }
  if (started.pass != view.next_pass) {
    return wrong("started.pass", started.pass, std::to_string(view.next_pass));
  }
  if (started.position != view.tree.end()) {
    return wrong("started.position", started.position, std::to_string(view.tree.end()));
  }
  const NodeId last_sent = view.tree.ids().last_id();
  if (started.last_id > last_sent) {
    return wrong("started.last_id", started.last_id, "at most " + std::to_string(last_sent));
  }
  const std::size_t living = view.tree.ids().living().size();
  if (started.left_out.size() > living) {
    return wrong("started.left_out of length", static_cast<std::int64_t>(started.left_out.size()),
                 "at most " + std::to_string(living) + ", the nodes that live");
  }
  return {};
}

Status check_logprobs(const Verdict& verdict, const StreamView& view) {
  if (view.unscored && *view.unscored < view.prompt_length) {
    return failed_precondition(
        "the server gives no log-probabilities of a prompt; it is older than this edge. "
        "Remedy: ask for none (echo), or use a server of this release");
  }
  const std::size_t wanted = view.top_logprobs ? verdict.tokens.size() : 0;
  if (verdict.logprobs.empty() && wanted > 0) {
    return failed_precondition(
        "the server gives no log-probabilities; it is older than this edge. Remedy: ask for none "
        "(--logprobs), or use a server of this release");
  }
  if (verdict.logprobs.size() != wanted) {
    return wrong("verdict.logprobs of length", static_cast<std::int64_t>(verdict.logprobs.size()),
                 std::to_string(wanted));
  }
  return check_likeliest("verdict.logprobs", verdict.logprobs, view);
}

// A verifier that is older than digests gives none.
Status check_digests(const Verdict& verdict, const StreamView& view) {
  const Position end = verdict.position + static_cast<Position>(verdict.tokens.size());
  const Position wanted = view.wants_digests ? digests_between(verdict.position, end) : 0;
  const auto count = static_cast<Position>(verdict.digests.size());
  if (count == 0 || count == wanted) return {};
  return wrong("verdict.digests of length", count, std::to_string(wanted));
}

Status check_prompt_logprobs(const PromptLogprobs& scored, const StreamView& view) {
  const auto count = static_cast<std::int64_t>(scored.logprobs.size());
  if (!view.unscored) {
    return wrong("prompt_logprobs of length", count, "none, as this edge asked for none");
  }
  if (scored.position != *view.unscored) {
    return wrong("prompt_logprobs.position", scored.position, std::to_string(*view.unscored));
  }
  const Position room = view.prompt_length - scored.position;
  if (count == 0 || count > room) {
    return wrong("prompt_logprobs of length", count, "1 to " + std::to_string(room));
  }
  return check_likeliest("prompt_logprobs", scored.logprobs, view);
}

Status check_verdict(const Verdict& verdict, const StreamView& view) {
  if (!view.started || verdict.pass != view.started->pass) {
    return wrong("verdict.pass", verdict.pass,
                 view.started ? std::to_string(view.started->pass) : "its Started message first");
  }
  if (verdict.position != view.tree.end()) {
    return wrong("verdict.position", verdict.position, std::to_string(view.tree.end()));
  }
  const auto count = static_cast<Position>(verdict.tokens.size());
  const Position room = view.end_position - view.tree.end();
  if (count == 0 || count > room) {
    return wrong("verdict.tokens of length", count, "1 to " + std::to_string(room));
  }
  const Position most_rows = view.tree.end() + kMaxNodeRows;
  if (verdict.rows > most_rows) {
    return wrong("verdict.rows", verdict.rows, "at most " + std::to_string(most_rows));
  }
  const bool alone = verdict.batch_rows == 0;
  if (!alone && (verdict.batch_rows <= verdict.rows || verdict.batch_rows > kMaxBatchRows)) {
    return wrong(
        "verdict.batch_rows", verdict.batch_rows,
        "0 or " + std::to_string(verdict.rows + 1) + " to " + std::to_string(kMaxBatchRows));
  }
  for (std::size_t i = 0; i < verdict.tokens.size(); ++i) {
    const TokenId token = verdict.tokens[i];
    if (token < 0 || token >= view.opened.limits.vocab_size) {
      return wrong("verdict.tokens with", token,
                   "0 to " + std::to_string(view.opened.limits.vocab_size - 1));
    }
    if (i + 1 < verdict.tokens.size() && is_stop(view.opened, token)) {
      return wrong("verdict.tokens after the stop id", token, "the verdict to end with it");
    }
  }
  OUTRIDER_RETURN_IF_ERROR(check_logprobs(verdict, view));
  OUTRIDER_RETURN_IF_ERROR(check_digests(verdict, view));
  return check_walk(verdict, view);
}

Status check_usage(const Usage& usage, const StreamView& view) {
  const bool at_end = view.tree.end() >= view.end_position;
  if (usage.reason == FinishReason::kStop) {
    if (view.tree.end() <= view.prompt_length) {
      return wrong("usage.reason stop at position", view.tree.end(), "a token of the answer first");
    }
    const TokenId last = view.tree.text().back();
    if (!is_stop(view.opened, last)) {
      return wrong("usage.reason stop after token", last, "a stop id");
    }
  }
  if (usage.reason == FinishReason::kLength && !at_end) {
    return wrong("usage.reason length at position", view.tree.end(),
                 std::to_string(view.end_position));
  }
  return {};
}

std::optional<ExitAdvice> read_report(const ExitReport& report, std::uint32_t last_seq,
                                      const StreamView& view) {
  if (!view.started || report.pass != view.started->pass) return std::nullopt;
  if (report.seq <= last_seq) return std::nullopt;
  const auto exits = static_cast<std::int32_t>(view.opened.exits.size());
  if (report.exit < 0 || report.exit >= exits) return std::nullopt;
  const auto is_token = [&](TokenId token) {
    return token >= 0 && token < view.opened.limits.vocab_size;
  };
  if (!is_token(report.next_token) || !std::ranges::all_of(report.path, is_token)) {
    return std::nullopt;
  }
  if (!report.path.empty() && !view.accepts_server_nodes) return std::nullopt;
  const NodeIndex leaf = leaf_of(report, view);
  if (leaf == kNoNode) return std::nullopt;
  const Position at = (leaf == kRoot ? view.tree.end() : view.tree.node(leaf).position + 1) +
                      static_cast<Position>(report.path.size());
  if (at >= view.end_position) return std::nullopt;
  const NodeIndex next =
      view.tree.child(leaf, report.path.empty() ? report.next_token : report.path.front());
  if (next != kNoNode) {
    const NodeId id = view.tree.node(next).id;
    if (id != 0 && pass_took(*view.started, id)) return std::nullopt;  // the walk would go on
  }
  return ExitAdvice{.leaf = leaf,
                    .path = report.path,
                    .token = report.next_token,
                    .probability = report.confidence / 255.0,
                    .exit = report.exit};
}

}  // namespace outrider
