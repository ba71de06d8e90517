// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/opening.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/decoding/protocol/messages.h"
#include "edge_client/session/decoding_session.h"

namespace outrider {
namespace {

// A prefix that is longer than the first goes in pieces of the second, each a fraction of a second
// on a slow link.
constexpr std::size_t kPrefixInOpen = 4096;
constexpr std::size_t kPieceSent = 1024;
static_assert(kPieceSent >= kPrefixPiece);
// From this length on a hash is much shorter than the ids.
constexpr std::size_t kPrefixByHash = 128;

// A verifier that states its open_timeout also finds prefixes by their hash.
bool goes_by_hash(std::size_t prefix_length, const Opened& last) {
  return last.limits.open_timeout > Duration{0} && prefix_length >= kPrefixByHash;
}

Status too_small(const char* limit, std::int64_t value) {
  return failed_precondition("the server sent " + std::string(limit) + " " + std::to_string(value) +
                             ", expected more than 0");
}

Status differs(const char* what, const std::string& value, const std::string& expected) {
  return failed_precondition("the server's " + std::string(what) + " is " + value +
                             ", but this answer was begun with " + expected +
                             "; start a new answer to use it");
}

// Where the target takes fewer nodes than --tree-size asks for.
std::optional<Say> smaller_tree_line(const TreeOptions& tree, const Limits& limits) {
  const std::size_t most = std::min(limits.max_nodes, limits.max_rows - 1);
  if (tree.kind == TreeKind::kChain || tree.size <= most) return std::nullopt;
  return Say{Say::Level::kWarning,
             fmt::format("tree: at most {} nodes a round instead of {} (--tree-size), because the "
                         "target takes no more",
                         most, tree.size)};
}

}  // namespace

Open make_open(const DecodingOptions& options, const Opened& last, StreamStart start) {
  const bool first = last.session_id.empty();
  Open open{.tokenizer_hash = options.tokenizer_hash,
            .sampling = options.choice.sampling,
            .seed = options.choice.seed,
            .prefix = std::move(start.prefix),
            .end_position = start.end_position,
            .policy = start.policy,
            .stop_ids = options.stop_ids,
            .expected_fingerprint = last.fingerprint,
            .expected_arithmetic_id = last.arithmetic_id,
            .replaced_session = first ? options.replaced_session : last.session_id,
            .session_key = options.session_key,
            .prefix_length = 0,
            .prefix_hash = {},
            .accept_other_arithmetic = !first && options.reconnect.accept_other_arithmetic,
            .template_hash = options.template_hash,
            .ignore_target_stops = options.ignore_target_stops,
            .service_tier = options.service_tier,
            .accepts_server_nodes = options.accepts_server_nodes};
  open.set_settings(options.choice.settings, options.choice.answer_begin);
  open.top_logprobs = options.top_logprobs;
  open.prompt_logprobs = start.scores_prompt;
  open.wants_digests = options.wants_digests;
  open.level = options.level;
  const std::size_t length = open.prefix.size();
  const bool by_hash = goes_by_hash(length, last);
  if (by_hash) open.prefix_hash = prefix_hash(open.prefix);
  if (by_hash || goes_in_pieces(length, last)) {
    open.prefix_length = static_cast<Position>(length);
    open.prefix.clear();
  }
  return open;
}

bool goes_in_pieces(std::size_t prefix_length, const Opened& last) {
  return prefix_length > kPrefixInOpen && !goes_by_hash(prefix_length, last);
}

std::vector<Prefix> prefix_pieces(std::span<const TokenId> prefix) {
  std::vector<Prefix> pieces;
  for (; !prefix.empty(); prefix = prefix.subspan(pieces.back().ids.size())) {
    const auto piece = prefix.first(std::min(prefix.size(), kPieceSent));
    pieces.push_back({{piece.begin(), piece.end()}});
  }
  return pieces;
}

Status check_opened(const Opened& opened, const Opened& last, const DecodingOptions& options) {
  const Limits& limits = opened.limits;
  if (limits.vocab_size <= 0) return too_small("limits.vocab_size", limits.vocab_size);
  if (limits.max_positions <= 0) return too_small("limits.max_positions", limits.max_positions);
  if (limits.run_ahead == 0) return too_small("limits.run_ahead", 0);
  if (limits.max_rows == 0) return too_small("limits.max_rows", 0);
  if (!options.level.empty() && opened.level != options.level) {
    return failed_precondition("the server answers by " +
                               (opened.level.empty() ? "its full model" : "level " + opened.level) +
                               ", not by level " + options.level +
                               " as --level says. Remedy: a server of this version, or no --level");
  }
  const bool any_model = options.accept_other_model || last.fingerprint.empty();
  if (!any_model && opened.fingerprint != last.fingerprint) {
    return differs("model fingerprint", opened.fingerprint, last.fingerprint);
  }
  const bool any_arithmetic = options.reconnect.accept_other_arithmetic ||
                              options.accept_other_model || last.arithmetic_id.empty();
  if (!any_arithmetic && opened.arithmetic_id != last.arithmetic_id) {
    return differs("arithmetic id", opened.arithmetic_id, last.arithmetic_id);
  }
  return {};
}

std::vector<Say> target_lines(const DecodingOptions& options, const Opened& opened,
                              const Speculator& speculation) {
  std::vector<Say> lines;
  if (options.announcement.empty()) return lines;
  lines.push_back({Say::Level::kInfo, "target: " + opened.model_name});
  if (!speculation.ended()) {
    lines.push_back({Say::Level::kInfo, "speculation: " + options.announcement});
  }
  if (const std::optional<std::string>& why = speculation.begins_without()) {
    lines.push_back({Say::Level::kInfo, "speculation: OFF for now, because " + *why});
  }
  if (opened.server_drafts) {
    lines.push_back({Say::Level::kInfo, "speculation: the server drafts too"});
  }
  const SpeculationOptions& speculated = options.speculation.first;
  if (speculated.chosen() == Strategy::kFsd && opened.exits.empty()) {
    lines.push_back({Say::Level::kWarning,
                     "speculation: as --strategy sd, because the target has no early exits"});
  }
  if (const std::optional<Say> line = smaller_tree_line(speculated.tree, opened.limits)) {
    lines.push_back(*line);
  }
  return lines;
}

std::vector<Say> other_target_lines(const Opened& before, const Opened& now) {
  std::string line;
  if (now.fingerprint != before.fingerprint) {
    line = "target: " + now.model_name + ", no longer " + before.model_name;
  } else if (now.arithmetic_id != before.arithmetic_id) {
    line = "target: computes with arithmetic id " + now.arithmetic_id + ", no longer with " +
           before.arithmetic_id;
  } else {
    return {};
  }
  return {{Say::Level::kWarning, line + "; the text may differ from here on"}};
}

}  // namespace outrider
