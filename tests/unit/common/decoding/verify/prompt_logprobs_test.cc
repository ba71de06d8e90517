// The log-probabilities of a prompt: they are those of its rows, whatever chunks, kept texts,
// memory and other sessions do. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <utility>

#include "tests/unit/common/decoding/verify/sessions_fixture.h"

namespace outrider {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class PromptLogprobsTest : public SessionsTest {
 protected:
  PromptLogprobsTest() {
    options_.prefill_chunk = 64;
    options_.max_batched_rows = 64;
    options_.max_rows = 5;
  }
  static Open scored(std::vector<TokenId> prefix, std::uint32_t top = 2) {
    Open asked = open_message(std::move(prefix));
    asked.top_logprobs = top;
    asked.prompt_logprobs = true;
    return asked;
  }
  // By the whole text before each token but the first.
  std::vector<TokenLogprobs> right(const Open& asked) const {
    std::vector<TokenLogprobs> all;
    for (std::size_t i = 1; i < asked.prefix.size(); ++i) {
      all.push_back(logprobs_of(model_.logits_after(std::span(asked.prefix).first(i)),
                                asked.prefix[i], *asked.top_logprobs));
    }
    return all;
  }
  // All that the stream was told, whose messages follow one another.
  std::vector<TokenLogprobs> told(StreamId stream) {
    std::vector<TokenLogprobs> all;
    for (const PromptLogprobs& message : heard<PromptLogprobs>(stream)) {
      EXPECT_EQ(message.position, 1 + std::ssize(all));
      all.insert(all.end(), message.logprobs.begin(), message.logprobs.end());
    }
    return all;
  }
  // Whether they came before the first verdict.
  bool came_first(StreamId stream) {
    collect();
    bool decided = false, in_order = true;
    for (const StreamEvent& event : events_) {
      const auto* message = std::get_if<ServerMessage>(&event.event);
      if (event.stream != stream || message == nullptr) continue;
      decided = decided || std::holds_alternative<Verdict>(*message);
      if (decided && std::holds_alternative<PromptLogprobs>(*message)) in_order = false;
    }
    return decided && in_order;
  }
};

TEST_F(PromptLogprobsTest, AreThoseOfItsRowsInChunksOfAVerifyingPass) {
  const Open asked = scored(long_text(23));
  open(1, asked);
  finish_all();
  EXPECT_EQ(told(1), right(asked));
  EXPECT_THAT(told(1), SizeIs(22));
  EXPECT_TRUE(came_first(1));
  EXPECT_EQ(heard<Progress>(1).size(), 4u) << "five rows of the pass each, and the last three";
  EXPECT_EQ(answer(1), expected(asked));
}

TEST_F(PromptLogprobsTest, ATextThatIsKeptIsReadAgainForThem) {
  Open plain = open_message(long_text(200));
  open(1, plain);
  finish_all();
  const Open asked = scored(plain.prefix, 0);
  open(2, asked);
  finish_all();
  EXPECT_EQ(told(2), right(asked));
  EXPECT_EQ(heard<Usage>(2).at(0).cached_tokens, 0u);
  EXPECT_EQ(answer(2), expected(asked));
  open(3, plain);
  finish_all();
  EXPECT_GT(heard<Usage>(3).at(0).cached_tokens, 100u) << "its own text is there for others";
}

TEST_F(PromptLogprobsTest, OfAPromptOfOneTokenThereAreNone) {
  const Open asked = scored({3});
  open(1, asked);
  finish_all();
  EXPECT_THAT(heard<PromptLogprobs>(1), IsEmpty());
  EXPECT_EQ(answer(1), expected(asked));
}

TEST_F(PromptLogprobsTest, OthersAnswersAreTheSameBesideThem) {
  for (const bool on_demand : {false, true}) {
    scheduler_.reset();
    events_.clear();
    options_.logits_on_demand = on_demand;
    const Open asked = scored(long_text(40));
    const Open other = open_message(long_text(30));
    open(1, asked);
    open(2, other);
    finish_all();
    EXPECT_EQ(told(1), right(asked));
    EXPECT_EQ(answer(1), expected(asked));
    EXPECT_EQ(answer(2), expected(other));
  }
}

// A session reads its prompt row by row while an urgent one outgrows its memory: it gives up its
// own in the middle, and goes on from there once the other is over.
TEST_F(PromptLogprobsTest, ASessionThatLosesItsMemoryGoesOnWithThem) {
  ToyModel model(8, 4096);
  model.set_kv_bytes_per_position(1024);
  options_.kv.max_bytes = 14 * 64 * 1024;
  options_.max_rows = 1;
  options_.run_ahead = 10000;
  scheduler_.emplace(model, options_);
  Open asked = scored(long_text(500), 0);
  asked.service_tier = ServiceTier::kFlex;
  const Open urgent = open_message({7, 6}, 700);
  open(1, asked, kAlice);
  open(2, urgent, kBob);
  while (turn() != 0) {
    clock_.advance(from_ms(400));
    scheduler().tick(now());
  }
  EXPECT_GT(scheduler().stats().preemptions, 0u);
  EXPECT_EQ(told(1), right(asked));
  for (const auto& [stream, open] : {std::pair(1, std::as_const(asked)), std::pair(2, urgent)}) {
    std::vector<TokenId> text = model.decode(open.prefix, open.end_position, {}, 0);
    text.erase(text.begin(), text.begin() + std::ssize(open.prefix));
    EXPECT_EQ(answer(static_cast<StreamId>(stream)), text) << stream;
  }
}

TEST_F(PromptLogprobsTest, ARowThatSaysNothingEndsTheStream) {
  open(1, scored(long_text(9)));
  model_.spoil_next_passes(1);
  finish_all();
  ASSERT_TRUE(ended(1));
  EXPECT_EQ(ended(1)->code(), StatusCode::kDataLoss) << ended(1)->to_string();
}

}  // namespace
}  // namespace outrider
