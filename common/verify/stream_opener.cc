// SPDX-License-Identifier: Apache-2.0
#include "common/verify/stream_opener.h"

#include <algorithm>
#include <span>
#include <string>

#include "common/protocol/prefix_hash.h"
#include "common/verify/open_check.h"

namespace outrider {

Status StreamOpener::receive(StreamId id, VerifyStream& stream, const EdgeMessage& message,
                             TimePoint now) {
  if (stream.assembly() != nullptr) return gather(id, stream, message, now);
  return begin(id, stream, message, now);
}

// The first message of a stream.
Status StreamOpener::begin(StreamId id, VerifyStream& stream, const EdgeMessage& message,
                           TimePoint now) {
  const auto* asked = std::get_if<Open>(&message.body);
  if (asked == nullptr) {
    return failed_precondition("the first message of a stream must be Open");
  }
  if (asked->prefix_length == 0) return open(id, stream, message, now);
  OUTRIDER_RETURN_IF_ERROR(check_open_head(*asked, table_.target()));
  if (asked->prefix_hash.empty()) {
    stream.assemble(message, now);
    return {};
  }
  const SessionName wanted{asked->replaced_session, asked->session_key, stream.name().owner};
  EdgeMessage whole = message;
  auto& filled = std::get<Open>(whole.body);
  filled.prefix = known_prefix(wanted, *asked);
  if (filled.prefix.empty()) {
    stream.assemble(message, now);
    table_.say(id, Notice{Notice::Kind::kSendPrefix, Duration{0}});
    return {};
  }
  filled.prefix_length = 0;
  filled.prefix_hash.clear();
  return open(id, stream, whole, now);
}

// A message of a stream whose prefix is not complete.
Status StreamOpener::gather(StreamId id, VerifyStream& stream, const EdgeMessage& message,
                            TimePoint now) {
  OUTRIDER_RETURN_IF_ERROR(stream.assembly()->take(message, now));
  if (!stream.assembly()->complete()) return {};
  std::vector<EdgeMessage> messages = stream.assembled();
  auto& whole = std::get<Open>(messages.front().body);
  if (!whole.prefix_hash.empty() && prefix_hash(whole.prefix) != whole.prefix_hash) {
    return invalid_argument("Open.prefix_hash: is not that of the ids in the Prefix messages");
  }
  whole.prefix_hash.clear();
  OUTRIDER_RETURN_IF_ERROR(open(id, stream, messages.front(), now));
  for (std::size_t i = 1; i < messages.size() && !stream.session()->finished(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(stream.check_reports(messages[i]));
    OUTRIDER_RETURN_IF_ERROR(stream.receive(messages[i], now));
  }
  return {};
}

// The ids that the Open names by their hash, if this session of the same tenant has them; else
// none.
std::vector<TokenId> StreamOpener::known_prefix(const SessionName& wanted, const Open& open) {
  std::span<const TokenId> text;
  if (const auto at = table_.find_session(wanted); at != table_.end()) {
    text = at->second.session()->tree().text();
  } else if (const auto* kept = table_.pool().text_of(wanted)) {
    text = *kept;
  }
  if (static_cast<Position>(text.size()) < open.prefix_length) return {};
  text = text.first(static_cast<std::size_t>(open.prefix_length));
  if (prefix_hash(text) != open.prefix_hash) return {};
  return {text.begin(), text.end()};
}

Status StreamOpener::open(StreamId id, VerifyStream& stream, const EdgeMessage& message,
                          TimePoint now) {
  const Open& open = std::get<Open>(message.body);
  OUTRIDER_RETURN_IF_ERROR(check_open(open, table_.target()));
  OUTRIDER_RETURN_IF_ERROR(
      admit(id, {open.replaced_session, open.session_key, stream.name().owner}, now));
  Status status = stream.open(message, table_.target(), table_.pool(),
                              std::max(table_.options().prefill_chunk, 1u), now);
  if (stream.session() != nullptr) {
    table_.count_opened();
    return status;
  }
  if (status.code() != StatusCode::kResourceExhausted) return status;
  table_.count_refused();
  return table_.short_of_memory(id, status.message(), table_.pool().why_short());
}

Status StreamOpener::admit(StreamId id, const SessionName& wanted, TimePoint now) {
  const SchedulerOptions& options = table_.options();
  if (table_.draining()) {
    table_.count_refused();
    return unavailable("this verifier is shutting down; open the session elsewhere or later");
  }
  if (const auto at = table_.find_session(wanted); at != table_.end()) {
    table_.close(at, cancelled("a newer stream replaces this session"), now);
  }
  if (table_.sessions_open() < options.max_concurrent_sessions) return {};
  table_.count_refused();
  return table_.overloaded(
      id, "all " + std::to_string(options.max_concurrent_sessions) + " sessions are taken");
}

}  // namespace outrider
