// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/message_checks.h"

#include <algorithm>
#include <string>

namespace outrider {
namespace {

Status wrong(const char* what, std::int64_t value, const std::string& expected) {
  return failed_precondition("the server sent " + std::string(what) + " " + std::to_string(value) +
                             ", expected " + expected);
}

Status differs(const char* what, const std::string& value, const std::string& expected) {
  return failed_precondition("the server's " + std::string(what) + " is " + value +
                             ", but this answer was begun with " + expected +
                             "; start a new answer to use it");
}

bool is_stop(const Opened& opened, TokenId token) {
  return std::ranges::find(opened.stop_ids, token) != opened.stop_ids.end();
}

// All tokens but the last were walked along nodes of the pass.
Status check_walk(const Verdict& verdict, const StreamView& view) {
  NodeIndex at = kRoot;
  for (std::size_t i = 0; i + 1 < verdict.tokens.size(); ++i) {
    at = view.tree.child(at, verdict.tokens[i]);
    const NodeId id = at == kNoNode ? 0 : view.tree.node(at).id;
    if (id == 0 || !pass_took(*view.started, id)) {
      return wrong("verdict.tokens with", verdict.tokens[i],
                   "a node of pass " + std::to_string(verdict.pass) + " at position " +
                       std::to_string(verdict.position + static_cast<Position>(i)));
    }
  }
  return {};
}

}  // namespace

Status check_opened(const Opened& opened, const std::string& expected_fingerprint,
                    const std::string& expected_arithmetic_id) {
  if (opened.limits.vocab_size <= 0) {
    return wrong("limits.vocab_size", opened.limits.vocab_size, "more than 0");
  }
  if (opened.limits.max_positions <= 0) {
    return wrong("limits.max_positions", opened.limits.max_positions, "more than 0");
  }
  if (opened.limits.run_ahead == 0) return wrong("limits.run_ahead", 0, "more than 0");
  if (opened.limits.max_rows == 0) return wrong("limits.max_rows", 0, "more than 0");
  if (!expected_fingerprint.empty() && opened.fingerprint != expected_fingerprint) {
    return differs("model fingerprint", opened.fingerprint, expected_fingerprint);
  }
  if (!expected_arithmetic_id.empty() && opened.arithmetic_id != expected_arithmetic_id) {
    return differs("arithmetic id", opened.arithmetic_id, expected_arithmetic_id);
  }
  return {};
}

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
  return {};
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
  for (std::size_t i = 0; i < verdict.tokens.size(); ++i) {
    const TokenId token = verdict.tokens[i];
    if (token < 0 || token >= view.opened.limits.vocab_size) {
      return wrong("verdict.tokens with", token,
                   "0 to " + std::to_string(view.opened.limits.vocab_size - 1));
    }
    if (i + 1 < verdict.tokens.size() && is_stop(view.opened, token)) {
      return wrong("tokens after the stop id", token, "the verdict to end with it");
    }
  }
  return check_walk(verdict, view);
}

Status check_usage(const Usage& usage, const StreamView& view) {
  const auto text = view.tree.text();
  const bool at_stop = !text.empty() && is_stop(view.opened, text.back());
  const bool at_end = view.tree.end() >= view.end_position;
  if (usage.reason == FinishReason::kStop && !at_stop) {
    return failed_precondition("the server ended the answer with reason stop, but the last token " +
                               std::to_string(text.empty() ? -1 : text.back()) + " is no stop id");
  }
  if (usage.reason == FinishReason::kLength && !at_end) {
    return wrong("the end with reason length at position", view.tree.end(),
                 std::to_string(view.end_position));
  }
  return {};
}

}  // namespace outrider
