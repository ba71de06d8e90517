// A scheduler over a toy model under a clock that the test moves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/decoding/verify/scheduling/scheduler.h"
#include "tests/sim/toy_model.h"

namespace outrider {

class SchedulerTest : public testing::Test {
 protected:
  explicit SchedulerTest(Position max_positions = 256) : model_(8, max_positions) {
    options_.max_concurrent_sessions = 2;
    options_.prefill_chunk = 2;
    options_.max_batched_rows = 1;  // each has a pass of its own; batch_test.cc is about others
  }

  Scheduler& scheduler() {
    if (!scheduler_) scheduler_.emplace(model_, options_);
    return *scheduler_;
  }
  TimePoint now() const { return clock_.now(); }

  void connect(StreamId stream, StreamOwner owner = {}) {
    scheduler().connect(stream, "session-" + std::to_string(stream), now(), {}, std::move(owner));
  }
  static Open open_message(std::vector<TokenId> prefix, Position tokens = 6) {
    Open open;
    open.end_position = static_cast<Position>(prefix.size()) + tokens;
    open.prefix = std::move(prefix);
    open.policy.pass_policy = PassPolicy::kEager;
    return open;
  }
  void open(StreamId stream, Open open, StreamOwner owner = {}) {
    connect(stream, std::move(owner));
    scheduler().receive(stream, {.body = std::move(open)}, now());
  }
  // One turn; the stream that got it, or 0.
  StreamId turn() {
    if (!scheduler().start(now())) return 0;
    clock_.advance(from_ms(2));
    scheduler().compute();
    scheduler().finish(now());
    return scheduler().last_served().front();
  }
  std::vector<StreamId> turns(int count) {
    std::vector<StreamId> served;
    for (int i = 0; i < count; ++i) served.push_back(turn());
    return served;
  }

  void collect() {
    for (StreamEvent& event : scheduler().take_events()) events_.push_back(std::move(event));
  }
  // All messages of this type to the stream so far.
  template <typename T>
  std::vector<T> heard(StreamId stream) {
    collect();
    std::vector<T> found;
    for (const StreamEvent& event : events_) {
      const auto* message = std::get_if<ServerMessage>(&event.event);
      if (event.stream == stream && message != nullptr && std::holds_alternative<T>(*message)) {
        found.push_back(std::get<T>(*message));
      }
    }
    return found;
  }
  std::optional<Status> ended(StreamId stream) {
    collect();
    for (const StreamEvent& event : events_) {
      const auto* end = std::get_if<StreamEnded>(&event.event);
      if (event.stream == stream && end != nullptr) return end->status;
    }
    return std::nullopt;
  }
  std::vector<TokenId> answer(StreamId stream) {
    std::vector<TokenId> tokens;
    for (const Verdict& verdict : heard<Verdict>(stream)) {
      tokens.insert(tokens.end(), verdict.tokens.begin(), verdict.tokens.end());
    }
    return tokens;
  }
  std::vector<TokenId> expected(const Open& open) {
    std::vector<TokenId> text =
        model_.decode(open.prefix, open.end_position, open.sampling, open.seed);
    text.erase(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(open.prefix.size()));
    return text;
  }

  ManualClock clock_;
  ToyModel model_;
  SchedulerOptions options_;
  std::optional<Scheduler> scheduler_;
  std::vector<StreamEvent> events_;
};

}  // namespace outrider
