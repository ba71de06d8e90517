// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/level_switch.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/engine/sampling/row_digest.h"

namespace outrider {
namespace {

// Tokens behind the first verdict before an answer's pace counts as known.
constexpr std::int64_t kPaceTokens = 3;

// Null: the event is no verdict of the stream that is open.
const Verdict* verdict_of(const SessionEvent& event, std::uint32_t epoch) {
  const auto* from = std::get_if<FromVerifier>(&event);
  if (from == nullptr || from->epoch != epoch) return nullptr;
  const auto* message = std::get_if<ServerMessage>(&from->event);
  return message != nullptr ? std::get_if<Verdict>(message) : nullptr;
}

// The same, as if it had brought only its first tokens.
Verdict cut_to(const Verdict& whole, std::size_t tokens) {
  Verdict cut = whole;
  const Position end = whole.position + static_cast<Position>(tokens);
  cut.tokens.resize(tokens);
  cut.logprobs.resize(std::min(whole.logprobs.size(), tokens));
  const auto digests = static_cast<std::size_t>(digests_between(whole.position, end));
  cut.digests.resize(std::min(whole.digests.size(), digests));
  // Its last token counts as the target's own.
  if (tokens <= kMarkedTokens) cut.server_nodes &= (std::uint64_t{1} << (tokens - 1)) - 1;
  return cut;
}

}  // namespace

LevelSwitchDecorator::LevelSwitchDecorator(DecodingSession& inner, Plan plan)
    : inner_(inner),
      track_(std::move(plan.track)),
      review_(std::move(plan.review)),
      prompt_length_(static_cast<Position>(inner.text().size())) {}

SessionActions LevelSwitchDecorator::start(TimePoint now) {
  take(inner_.start(now));
  return std::exchange(actions_, {});
}

SessionActions LevelSwitchDecorator::handle(const SessionEvent& event, TimePoint now) {
  std::optional<std::size_t> level = take_verdict(event, now);
  if (!level) level = review(now);
  if (level && !inner_.decided()) go_on_with(*level, now);
  return std::exchange(actions_, {});
}

// The level that begins behind the verdict's last token that stands. Other events go through.
std::optional<std::size_t> LevelSwitchDecorator::take_verdict(const SessionEvent& event,
                                                              TimePoint now) {
  std::optional<std::size_t> level;
  std::size_t stand = 0;
  const Verdict* verdict = verdict_of(event, epoch_);
  while (verdict != nullptr && !level && stand < verdict->tokens.size()) {
    level = track_.push(verdict->tokens[stand++]);
  }
  if (level && stand < verdict->tokens.size()) {
    const FromVerifier cut{.epoch = epoch_, .event = ServerMessage(cut_to(*verdict, stand))};
    take(inner_.handle(cut, now));
  } else {
    take(inner_.handle(event, now));
  }
  return level;
}

std::optional<std::size_t> LevelSwitchDecorator::review(TimePoint now) {
  if (answered() == last_answered_) return std::nullopt;
  if (std::exchange(last_answered_, answered()) == 0) {
    first_answered_ = answered();
    first_at_ = now;
  }
  const std::int64_t later = answered() - first_answered_;
  if (!review_ || !switches().empty() || later < kPaceTokens) return std::nullopt;
  return review_({.answered = answered(),
                  .tpot_ms = to_ms(now - first_at_) / static_cast<double>(later),
                  .now = now});
}

// Drafts for the level that was chosen are as good for larger ones.
void LevelSwitchDecorator::go_on_with(std::size_t level, TimePoint now) {
  const auto is_smaller = [&](std::size_t one) { return one > track_.choice().level; };
  const bool to_other = is_smaller(level) != is_smaller(track_.level());
  track_.go_on_with(level);
  take(inner_.handle(Reopen{.to_other = to_other}, now));
}

void LevelSwitchDecorator::take(SessionActions actions) {
  for (SessionAction& action : actions) {
    if (auto* connect = std::get_if<Connect>(&action)) {
      epoch_ = connect->epoch;
      if (!switches().empty()) connect->level = track_.level();
    } else if (auto* send = std::get_if<Send>(&action)) {
      if (auto* open = std::get_if<Open>(&send->message.body)) complete(*open);
    }
    actions_.push_back(std::move(action));
  }
}

// The session takes the last stream for one of the same target, up to the answer's end.
void LevelSwitchDecorator::complete(Open& open) const {
  if (!switches().empty()) {
    open.expected_fingerprint.clear();
    open.expected_arithmetic_id.clear();
    open.replaced_session.clear();
  }
  if (const std::optional<LevelSwitch> next = track_.next_named()) {
    open.end_position =
        prompt_length_ + std::min(open.end_position - prompt_length_, next->from_token);
  }
}

}  // namespace outrider
