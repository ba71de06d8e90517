// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/level_switch.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// Tokens behind the first verdict before an answer's pace counts as known.
constexpr std::int64_t kPaceTokens = 3;

}  // namespace

LevelSwitchDecorator::LevelSwitchDecorator(DecodingSession& inner, Plan plan)
    : inner_(inner),
      plan_(std::move(plan)),
      prompt_length_(static_cast<Position>(inner.text().size())) {}

SessionActions LevelSwitchDecorator::start(TimePoint now) {
  take(inner_.start(now));
  return std::exchange(actions_, {});
}

SessionActions LevelSwitchDecorator::handle(const SessionEvent& event, TimePoint now) {
  if (ends_first_part(event)) {
    go_on_with(plan_.then->level, now);
  } else {
    take(inner_.handle(event, now));
    if (const std::optional<std::size_t> level = review(now)) go_on_with(*level, now);
  }
  return std::exchange(actions_, {});
}

// The first level's stream ended where the second begins, and the answer goes on.
bool LevelSwitchDecorator::ends_first_part(const SessionEvent& event) const {
  if (!plan_.then || switched_ || inner_.decided()) return false;
  const auto* from = std::get_if<FromVerifier>(&event);
  if (from == nullptr || from->epoch != epoch_) return false;
  const auto* message = std::get_if<ServerMessage>(&from->event);
  const auto* usage = message != nullptr ? std::get_if<Usage>(message) : nullptr;
  return usage != nullptr && usage->reason == FinishReason::kLength &&
         answered() == plan_.then->from_token;
}

std::optional<std::size_t> LevelSwitchDecorator::review(TimePoint now) {
  if (answered() == last_answered_) return std::nullopt;
  if (std::exchange(last_answered_, answered()) == 0) {
    first_answered_ = answered();
    first_at_ = now;
  }
  const std::int64_t later = answered() - first_answered_;
  if (!plan_.review || switched_ || inner_.decided() || later < kPaceTokens) return std::nullopt;
  return plan_.review({.answered = answered(),
                       .tpot_ms = to_ms(now - first_at_) / static_cast<double>(later),
                       .now = now});
}

void LevelSwitchDecorator::go_on_with(std::size_t level, TimePoint now) {
  switched_ = LevelSwitch{.from_token = answered(), .level = level};
  take(inner_.handle(Reopen{}, now));
}

void LevelSwitchDecorator::take(SessionActions actions) {
  for (SessionAction& action : actions) {
    if (auto* connect = std::get_if<Connect>(&action)) {
      epoch_ = connect->epoch;
      if (switched_) connect->level = switched_->level;
    } else if (auto* send = std::get_if<Send>(&action)) {
      if (auto* open = std::get_if<Open>(&send->message.body)) complete(*open);
    }
    actions_.push_back(std::move(action));
  }
}

// The session takes the last stream for one of the same target, up to the answer's end.
void LevelSwitchDecorator::complete(Open& open) const {
  if (switched_) {
    open.expected_fingerprint.clear();
    open.expected_arithmetic_id.clear();
    open.replaced_session.clear();
  } else if (plan_.then) {
    open.end_position =
        prompt_length_ + std::min(open.end_position - prompt_length_, plan_.then->from_token);
  }
}

}  // namespace outrider
