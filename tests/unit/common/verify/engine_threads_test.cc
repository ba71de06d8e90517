// An engine whose model lends it threads: what streams are told leaves on several of them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/verify/engine.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

class LendingModel final : public Model {
 public:
  const ModelInfo& info() const override { return model_.info(); }
  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity) override {
    return model_.new_cache(capacity);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    out.threads = &threads_;
    return model_.forward(rows, out);
  }
  const ToyModel& toy() const { return model_; }

 private:
  ToyModel model_;
  ThreadPool threads_{3};
};

// What one stream hears.
struct Heard {
  std::vector<TokenId> answer;
  std::uint32_t passes = 0;
  bool in_order = true;
  std::atomic<int> inside = 0;
  bool one_at_a_time = true;
};

TEST(EngineThreads, EachStreamHearsAllInOrderAndOneAtATime) {
  constexpr std::size_t kStreams = 24;
  LendingModel model;
  SchedulerOptions options;
  options.max_concurrent_sessions = kStreams;
  SystemClock clock;
  std::mutex mu;
  std::condition_variable changed;
  std::size_t ended = 0;
  std::deque<Heard> all(kStreams);
  std::vector<Open> opens;
  {
    VerifyEngine engine(model, options, clock);
    for (std::size_t i = 0; i < kStreams; ++i) {
      Open open;
      open.prefix = {static_cast<TokenId>(i % 8), static_cast<TokenId>(i / 8)};
      open.end_position = 60;
      open.policy.pass_policy = PassPolicy::kEager;
      opens.push_back(open);
      const StreamId stream = engine.connect([&, &heard = all[i]](VerifierEvent event) {
        heard.one_at_a_time = heard.one_at_a_time && ++heard.inside == 1;
        if (const auto* message = std::get_if<ServerMessage>(&event)) {
          if (const auto* started = std::get_if<Started>(message)) {
            heard.in_order = heard.in_order && started->pass == heard.passes;
          }
          if (const auto* verdict = std::get_if<Verdict>(message)) {
            heard.in_order = heard.in_order && verdict->pass == heard.passes++;
            heard.answer.insert(heard.answer.end(), verdict->tokens.begin(), verdict->tokens.end());
          }
        } else {
          const std::lock_guard lock(mu);
          ++ended;
          changed.notify_all();
        }
        --heard.inside;
      });
      engine.post(stream, {.body = open});
    }
    std::unique_lock lock(mu);
    changed.wait(lock, [&] { return ended == kStreams; });
  }
  for (std::size_t i = 0; i < kStreams; ++i) {
    const Open& open = opens[i];
    std::vector<TokenId> text =
        model.toy().decode(open.prefix, open.end_position, open.sampling, open.seed);
    text.erase(text.begin(), text.begin() + 2);
    EXPECT_EQ(all[i].answer, text) << i;
    EXPECT_TRUE(all[i].in_order) << i;
    EXPECT_TRUE(all[i].one_at_a_time) << i;
  }
}

}  // namespace
}  // namespace outrider
