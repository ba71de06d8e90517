// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/session_lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace outrider {
namespace {

std::string seconds_text(Duration d) {
  return fmt::format("{:.1f} s", to_seconds(d));
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

std::vector<Say> target_lines(const DecodingOptions& options, const Opened& opened,
                              const Speculator& speculation) {
  std::vector<Say> lines;
  if (options.speculation.empty()) return lines;
  lines.push_back({Say::Level::kInfo, "target: " + opened.model_name});
  if (!speculation.ended()) {
    lines.push_back({Say::Level::kInfo, "speculation: " + options.speculation});
  }
  if (const std::optional<std::string>& why = speculation.begins_without()) {
    lines.push_back({Say::Level::kInfo, "speculation: OFF for now, because " + *why});
  }
  if (options.strategy == Strategy::kFsd && opened.exits.empty()) {
    lines.push_back({Say::Level::kWarning,
                     "speculation: as --strategy sd, because the target has no early exits"});
  }
  if (const std::optional<Say> line = smaller_tree_line(options.tree, opened.limits)) {
    lines.push_back(*line);
  }
  return lines;
}

Status check_prompt_fits(Position prompt_length, Position context) {
  if (prompt_length < context) return {};
  return invalid_argument("the prompt has " + std::to_string(prompt_length) +
                          " tokens, but the target's context holds " + std::to_string(context) +
                          "; shorten the prompt");
}

Say notice_line(const StreamState& stream) {
  if (stream.overloaded) {
    return {Say::Level::kWarning,
            "server: overloaded, asks to wait " + seconds_text(stream.asked_delay)};
  }
  // It lets the answer finish if it can; if not, the stream ends and we reconnect.
  return {Say::Level::kInfo, "server: is shutting down; going on for as long as it answers"};
}

Say link_lost_line(const Status& why, Duration timeout) {
  return {Say::Level::kWarning,
          "link: " + why.message() + "; retrying for up to " + seconds_text(timeout)};
}

Say link_back_line(std::size_t answer_tokens) {
  return {Say::Level::kInfo, "link: back, going on at token " + std::to_string(answer_tokens)};
}

Status silent_too_long(Duration silence) {
  return unavailable("the server has said nothing for " + seconds_text(silence));
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

Status gave_up(Duration timeout, const std::string& last_error) {
  return unavailable("gave up after " + seconds_text(timeout) +
                     " of retries (--reconnect-timeout): " + last_error);
}

}  // namespace outrider
