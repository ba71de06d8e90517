// A draft model beside the target, over a scheduler under a clock that the test moves.
// SPDX-License-Identifier: Apache-2.0
#include "common/verify/model_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/toy_draft.h"
#include "tests/unit/common/verify/batch_fixture.h"

namespace outrider {
namespace {

using testing::HasSubstr;

// A draft whose step takes time by the test's clock.
class TimedDraft final : public Model {
 public:
  TimedDraft(const ToyModel& target, ManualClock& clock) : draft_(target), clock_(clock) {}

  const ModelInfo& info() const override { return draft_.info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return draft_.new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    clock_.advance(step + row * static_cast<std::int64_t>(rows.size()));
    most_rows = std::max(most_rows, rows.size());
    if (broken) return internal_error("the draft's device is gone");
    return draft_.forward(rows, out);
  }
  int passes() const { return draft_.passes(); }

  Duration step = from_ms(0.1);
  Duration row{0};
  bool broken = false;
  std::size_t most_rows = 0;

 private:
  ToyDraft draft_;
  ManualClock& clock_;
};

class ModelDraftTest : public BatchTest {
 protected:
  ModelDraftTest() {
    options_.draft_source = DraftSource::kModel;
    options_.draft_model = &draft_;
    options_.on_draft_failed = [this](const Status& status) { failure_ = status; };
  }
  Open accepting(std::vector<TokenId> prefix, Position tokens) {
    Open open = open_message(std::move(prefix), tokens);
    open.accepts_server_nodes = true;
    return open;
  }
  // Turns until nobody wants another; how many there were.
  int decode() {
    int turns = 0;
    do {
      scheduler().draft(clock_);
    } while (!ride().empty() && ++turns < 1000);
    return turns;
  }

  TimedDraft draft_{model_, clock_};
  Status failure_;
};

TEST_F(ModelDraftTest, ADraftThatIsRightSavesPassesAndChangesNoToken) {
  begin();
  const Open asked = accepting({1, 2, 3}, 60);
  open(1, asked);
  const int turns = decode();
  EXPECT_EQ(answer(1), expected(asked));
  EXPECT_LT(turns, 30);
  std::uint64_t marked = 0;
  for (const Verdict& verdict : heard<Verdict>(1)) {
    marked += static_cast<std::uint64_t>(std::popcount(verdict.server_nodes));
  }
  EXPECT_GT(marked, 30u);
}

TEST_F(ModelDraftTest, SessionsShareItsSteps) {
  begin();
  for (StreamId stream = 1; stream <= 4; ++stream) {
    open(stream, accepting({static_cast<TokenId>(stream), 2, 3}, 40));
  }
  decode();
  for (StreamId stream = 1; stream <= 4; ++stream) {
    EXPECT_EQ(answer(stream), expected(accepting({static_cast<TokenId>(stream), 2, 3}, 40)));
  }
  EXPECT_GE(draft_.most_rows, 4u);
}

TEST_F(ModelDraftTest, ASlowDraftRests) {
  draft_.step = from_ms(50);  // a pass of the target takes 2
  begin();
  const Open asked = accepting({1, 2, 3}, 200);
  open(1, asked);
  decode();
  EXPECT_EQ(answer(1), expected(asked));
  EXPECT_LT(draft_.passes(), 60);
}

TEST_F(ModelDraftTest, NobodyGetsItsNodesWhoDoesNotAcceptThemOrDraftsHimself) {
  begin();
  const Open asked = open_message({1, 2, 3}, 10);
  open(1, asked);
  decode();
  EXPECT_EQ(draft_.passes(), 0);
  Open edge = accepting({4, 5}, 6);
  edge.policy.pass_policy = PassPolicy::kOnRequest;
  open(2, edge);
  decode();
  grow(2, {{1, 0, 255}});
  scheduler().draft(clock_);
  EXPECT_EQ(draft_.passes(), 0) << "the edge has sent a node";
}

TEST_F(ModelDraftTest, WhenItFailsTheTargetGoesOnAlone) {
  begin();
  const Open asked = accepting({1, 2, 3}, 20);
  open(1, asked);
  draft_.broken = true;
  decode();
  EXPECT_THAT(failure_.message(), HasSubstr("the draft's device is gone"));
  EXPECT_EQ(answer(1), expected(asked));
}

TEST_F(ModelDraftTest, ATextBeyondItsContextGoesOnWithoutIt) {
  ToyDraft small(model_, 0, 8);
  options_.draft_model = &small;
  begin();
  const Open asked = accepting({1, 2, 3}, 30);
  open(1, asked);
  decode();
  EXPECT_TRUE(failure_.ok()) << failure_.message();
  EXPECT_EQ(answer(1), expected(asked));
  EXPECT_GT(small.passes(), 0);
}

TEST_F(ModelDraftTest, ATextWithTokensThatItDoesNotKnowGoesOnWithoutIt) {
  ToyDraft small(model_, 0, 1000, -2);
  options_.draft_model = &small;
  begin();
  const TokenId unknown = model_.info().vocab_size - 1;
  const Open foreign = accepting({1, unknown, 3}, 20), known = accepting({1, 2, 3}, 20);
  open(1, foreign);
  decode();
  EXPECT_EQ(small.passes(), 0);
  open(2, known);
  decode();
  EXPECT_TRUE(failure_.ok()) << failure_.message();
  EXPECT_EQ(answer(1), expected(foreign));
  EXPECT_EQ(answer(2), expected(known));
}

TEST_F(ModelDraftTest, WhatDoesNotFitItsMemoryGoesOnWithoutIt) {
  model_.set_kv_bytes_per_position(10);
  ToyDraft draft(model_);
  options_.draft_model = &draft;
  options_.draft_kv_bytes = 300;
  begin();
  const std::vector<TokenId> prompt(31, 1);
  const Open large = accepting(prompt, 10), small = accepting({1, 2, 3}, 10);
  open(1, large);
  decode();
  EXPECT_EQ(draft.passes(), 0);
  open(2, small);
  decode();
  EXPECT_GT(draft.passes(), 0);
  EXPECT_EQ(answer(1), expected(large));
  EXPECT_EQ(answer(2), expected(small));
}

TEST_F(ModelDraftTest, ALongPromptIsNotReadForAShortAnswer) {
  draft_.row = from_ms(1);  // a pass of the target takes 2
  begin();
  std::vector<TokenId> prompt(150);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(i * i % 7);
  for (StreamId stream = 1; stream <= 3; ++stream) {
    prompt[0] = static_cast<TokenId>(stream);  // each another prompt
    open(stream, accepting(prompt, 12));
    decode();
  }
  EXPECT_LT(draft_.passes(), 8) << "only the first one showed what reading takes";
}

TEST_F(ModelDraftTest, ALongPromptIsReadInParts) {
  begin();
  std::vector<TokenId> prompt(200);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(i * i % 7);
  const Open asked = accepting(prompt, 20);
  open(1, asked);
  decode();
  EXPECT_EQ(answer(1), expected(asked));
  EXPECT_LE(draft_.most_rows, 64u);
}

}  // namespace
}  // namespace outrider
