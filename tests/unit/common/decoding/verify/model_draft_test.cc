// A draft model beside the target, over a scheduler under a clock that the test moves.
// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/server_drafts/model_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "tests/sim/toy_draft.h"
#include "tests/unit/common/decoding/verify/batch_fixture.h"

namespace outrider {
namespace {

using testing::HasSubstr;

// A draft whose step takes time by the test's clock.
class TimedDraft final : public Model {
 public:
  TimedDraft(const ToyModel& target, ManualClock& clock, float strays = 0)
      : about(ToyDraft(target).info()), draft_(target, strays), clock_(clock) {}

  const ModelInfo& info() const override { return about; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    if (no_memory) return resource_exhausted("the draft's device is full");
    return draft_.new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    clock_.advance(step + row * static_cast<std::int64_t>(rows.size()));
    most_rows = std::max(most_rows, rows.size());
    if (broken) return internal_error("the draft's device is gone");
    return draft_.forward(rows, out);
  }
  int passes() const { return draft_.passes(); }
  std::size_t rows_run() const { return draft_.rows_run(); }

  Duration step = from_ms(0.1);
  Duration row{0};
  bool broken = false, no_memory = false;
  std::size_t most_rows = 0;
  ModelInfo about;

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
  // Turns until nobody wants another, at most so many; how many there were.
  int decode(int most = 1000) {
    int turns = 0;
    do {
      scheduler().draft(clock_);
    } while (turns < most && !ride().empty() && ++turns < most);
    return turns;
  }
  // The same with cores of the draft's own, on which it drafts while a pass of two milliseconds
  // runs; how many steps it took before passes.
  struct Beside {
    int turns = 0;
    int steps_before = 0;
  };
  // drafts: how often it is asked before each pass, as if sessions had not ridden meanwhile.
  Beside decode_beside(int drafts = 1) {
    Beside counted;
    while (true) {
      const int before = draft_.passes();
      for (int i = 0; i < drafts; ++i) scheduler().draft(clock_);
      counted.steps_before += draft_.passes() - before;
      const TimePoint begin = now();
      if (!scheduler().start(begin)) return counted;
      scheduler().draft_on(clock_);
      EXPECT_LE(now(), begin + from_ms(2));
      clock_.sleep_until(begin + from_ms(2));
      scheduler().compute();
      scheduler().finish(now());
      ++counted.turns;
    }
  }
  // The tokens of all verdicts so far that were nodes of the server's own.
  int own_tokens(StreamId stream) {
    int tokens = 0;
    for (const Verdict& verdict : heard<Verdict>(stream)) {
      tokens += std::popcount(verdict.server_nodes);
    }
    return tokens;
  }
  void decode_to_own_nodes(StreamId stream) {
    for (int turn = 0; turn < 30 && own_tokens(stream) == 0; ++turn) decode(1);
    ASSERT_GT(own_tokens(stream), 0);
  }
  // Rows that the draft computes for a whole answer of this owner.
  std::size_t rows_for(StreamId stream, const Open& asked, const StreamOwner& owner) {
    const std::size_t before = draft_.rows_run();
    open(stream, asked, owner);
    decode();
    EXPECT_EQ(answer(stream), expected(asked));
    return draft_.rows_run() - before;
  }
  static std::vector<TokenId> prompt_of(std::size_t tokens) {
    std::vector<TokenId> prompt(tokens);
    for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(i * i % 7);
    return prompt;
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
  EXPECT_GT(own_tokens(1), 30);
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

// One guess in eight stands, and a step takes a quarter of a pass.
TEST_F(ModelDraftTest, ADraftWhoseGuessesFallRestsAndItsTrialsTakeAHundredthOfThePasses) {
  TimedDraft strays(model_, clock_, 1000);
  strays.step = from_ms(0.5);
  options_.draft_model = &strays;
  begin();
  const auto decode_one = [&](StreamId stream) {
    const Open asked = accepting({static_cast<TokenId>(stream), 2, 3}, 240);
    open(stream, asked);
    const int passes = decode();
    EXPECT_EQ(answer(stream), expected(asked));
    return passes;
  };
  decode_one(1);
  const Duration before = scheduler().stats().drafting;
  const int passes = decode_one(2) + decode_one(3) + decode_one(4);
  const Duration took = scheduler().stats().drafting - before;
  EXPECT_LE(took, from_ms(2) * passes / 100 + strays.step);
  EXPECT_GE(took, 2 * strays.step) << "it is tried now and then";
}

TEST_F(ModelDraftTest, WhatLookUpHasGuessedIsNotGuessedAgain) {
  options_.draft_source = DraftSource::kBoth;
  draft_.step = from_ms(0.5);
  begin();
  const Open asked = accepting({1, 2, 3}, 200);
  open(1, asked);
  decode();
  const int alone = draft_.passes();
  for (StreamId stream = 2; stream <= 3; ++stream) {  // as its tenant asked before
    open(stream, asked);
    decode();
    EXPECT_EQ(answer(stream), expected(asked));
  }
  EXPECT_LT(draft_.passes() - alone, alone);
}

TEST_F(ModelDraftTest, WithCoresOfItsOwnItDraftsOnWhileAPassRuns) {
  options_.drafts_in_passes = true;
  options_.pass_costs.add(1, false, from_ms(2));
  draft_.step = from_ms(0.3);
  begin();
  std::vector<Open> asked = {accepting(prompt_of(150), 60), accepting({1, 2, 3}, 60)};
  asked[1].sampling.temperature = 0.8f;
  open(1, asked[0]);
  open(2, asked[1]);
  const Beside counted = decode_beside();
  for (StreamId stream = 1; stream <= 2; ++stream) {
    EXPECT_EQ(answer(stream), expected(asked[stream - 1])) << stream;
    EXPECT_GT(own_tokens(stream), 30) << stream;
  }
  EXPECT_LT(counted.steps_before, counted.turns);
}

TEST_F(ModelDraftTest, WhatItDraftsInPassesFallsWithTheFirstWrongGuess) {
  TimedDraft strays(model_, clock_, 1);
  options_.draft_model = &strays;
  options_.drafts_in_passes = true;
  options_.pass_costs.add(1, false, from_ms(2));
  begin();
  for (StreamId stream = 1; stream <= 4; ++stream) {
    open(stream, accepting({static_cast<TokenId>(stream), 2, 3}, 100));
  }
  decode_beside();
  for (StreamId stream = 1; stream <= 4; ++stream) {
    EXPECT_EQ(answer(stream), expected(accepting({static_cast<TokenId>(stream), 2, 3}, 100)));
    EXPECT_GT(own_tokens(stream), 10);
  }
}

TEST_F(ModelDraftTest, AGuessForWhichTheAnswerHasNoRoomIsNotMadeAgainInThePass) {
  draft_.about.most_kv_pages = 1;  // a second row in the same place would need another one
  options_.drafts_in_passes = true;
  options_.pass_costs.add(1, false, from_ms(2));
  begin();
  for (StreamId stream = 1; stream <= 9; ++stream) {  // the first five show that it is mostly right
    const Open asked = accepting({1, 2, 3}, stream <= 5 ? 40 : static_cast<Position>(stream - 2));
    open(stream, asked);
    decode_beside(2);
    EXPECT_EQ(answer(stream), expected(asked));
  }
}

TEST_F(ModelDraftTest, WhenItFailsInAPassTheTargetGoesOnAlone) {
  options_.drafts_in_passes = true;
  options_.pass_costs.add(1, false, from_ms(2));
  draft_.step = from_ms(1.5);  // too slow for a long chain before the pass
  begin();
  const Open asked = accepting({1, 2, 3}, 20);
  open(1, asked);
  ride();
  scheduler().draft(clock_);
  ASSERT_TRUE(scheduler().start(now()));
  draft_.broken = true;
  scheduler().draft_on(clock_);
  scheduler().compute();
  scheduler().finish(now());
  EXPECT_THAT(failure_.message(), HasSubstr("the draft's device is gone"));
  ride_to_the_end();
  EXPECT_EQ(answer(1), expected(asked));
}

TEST_F(ModelDraftTest, NobodyGetsItsNodesWhoDoesNotAcceptThem) {
  begin();
  open(1, open_message({1, 2, 3}, 10));
  decode();
  EXPECT_EQ(draft_.passes(), 0);
}

TEST_F(ModelDraftTest, APassThatTextsFillHasNoRowForAGuess) {
  options_.max_batched_rows = 2;
  begin();
  for (StreamId stream = 1; stream <= 2; ++stream) open(stream, accepting({1, 2, 3}, 10));
  decode(6);
  EXPECT_EQ(draft_.passes(), 0);
  scheduler().disconnect(2, now());
  decode();
  EXPECT_GT(draft_.passes(), 0) << "one is left";
}

TEST_F(ModelDraftTest, GuessesBesideWhatTheEdgeSent) {
  begin();
  Open edge = accepting({4, 5}, 12);
  edge.policy.pass_policy = PassPolicy::kOnRequest;
  open(1, edge);
  decode();
  EXPECT_EQ(draft_.passes(), 0) << "nothing asks for a pass";
  const TokenId wrong = (expected(edge)[answer(1).size()] + 1) % 8;
  grow(1, {{wrong, 0, 10}});
  decode();
  EXPECT_GT(own_tokens(1), 0);
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
  draft_.about.most_kv_pages = 1;  // 64 positions
  begin();
  const Open large = accepting(prompt_of(70), 10);
  open(1, large);
  decode();
  EXPECT_EQ(answer(1), expected(large));
  EXPECT_LE(draft_.rows_run(), 64u);
  EXPECT_EQ(own_tokens(1), 0);
  for (const StreamId stream : {2, 3}) {  // the second of them needs what the first one holds
    const Open small = accepting({1, 2, 3}, 10);
    open(stream, small);
    decode();
    EXPECT_EQ(answer(stream), expected(small));
    EXPECT_GT(own_tokens(stream), 0) << stream;
  }
  EXPECT_TRUE(failure_.ok()) << failure_.message();
}

TEST_F(ModelDraftTest, WithoutMemoryForItThatIsSaidAndTheTargetGoesOnAlone) {
  draft_.no_memory = true;
  begin();
  const Open asked = accepting({1, 2, 3}, 20);
  open(1, asked);
  decode();
  EXPECT_THAT(failure_.message(), HasSubstr("the draft's device is full"));
  EXPECT_EQ(answer(1), expected(asked));
  EXPECT_EQ(own_tokens(1), 0);
}

TEST_F(ModelDraftTest, APromptThatItsTenantHasAskedIsNotReadAgain) {
  begin();
  const Open asked = accepting(prompt_of(150), 12);
  const StreamOwner alice{.tenant = "alice", .group = "alice"};
  EXPECT_GE(rows_for(1, asked, alice), 150u);
  EXPECT_LT(rows_for(2, asked, alice), 100u) << "128 of them are two pages";
  EXPECT_GE(rows_for(3, asked, {.tenant = "bob", .group = "bob"}), 150u);
}

TEST_F(ModelDraftTest, WithoutSharingEachSessionIsReadAnew) {
  options_.kv.share_prefixes = false;
  begin();
  const Open asked = accepting(prompt_of(150), 12);
  const StreamOwner alice{.tenant = "alice", .group = "alice"};
  for (const StreamId stream : {1, 2}) EXPECT_GE(rows_for(stream, asked, alice), 150u);
}

TEST_F(ModelDraftTest, WhatItHeldForSessionsThatAreOverIsFreeAfterItsTime) {
  draft_.about.kv_bytes_per_position = 10;
  options_.kv.kept_for = std::chrono::minutes(10);
  begin();
  rows_for(1, accepting(prompt_of(150), 12), {});
  EXPECT_GT(scheduler().stats().kv_bytes, 0);
  EXPECT_GE(scheduler().stats().kv_bytes_bound, scheduler().stats().kv_bytes);
  clock_.advance(options_.kv.kept_for);
  scheduler().tick(now());
  EXPECT_EQ(scheduler().stats().kv_bytes, 0);
}

// It says that it accepts the server's nodes, and takes the first verdict with one for an error.
TEST_F(ModelDraftTest, AnEdgeThatAcceptsAndThenRefusesComesBackAndGoesOnWithoutThem) {
  options_.draft_source = DraftSource::kBoth;
  begin();
  const std::string key(32, 'a');
  Open asked = accepting({1, 2, 3}, 40);
  asked.session_key = key;
  open(1, asked);
  decode_to_own_nodes(1);
  const std::vector<TokenId> before = answer(1);
  scheduler().disconnect(1, now());
  Open again = open_message(asked.prefix, 40);
  again.prefix.insert(again.prefix.end(), before.begin(), before.end());
  again.end_position = asked.end_position;
  again.session_key = key;
  open(2, again);
  Open other = accepting({4, 5, 6}, 40);
  open(3, other);
  decode();
  EXPECT_EQ(own_tokens(2), 0);
  EXPECT_FALSE(heard<Opened>(2).at(0).server_drafts);
  std::vector<TokenId> whole = before;
  for (const TokenId token : answer(2)) whole.push_back(token);
  EXPECT_EQ(whole, expected(asked));
  EXPECT_EQ(answer(3), expected(other));
  EXPECT_GT(own_tokens(3), 0) << "nobody else is the worse for it";
}

TEST_F(ModelDraftTest, AnEdgeThatCancelsAmidItsNodesEndsWell) {
  begin();
  open(1, accepting({1, 2, 3}, 40));
  decode_to_own_nodes(1);
  scheduler().draft(clock_);
  scheduler().receive(1, {.body = Cancel{}}, now());
  EXPECT_EQ(heard<Usage>(1).at(0).reason, FinishReason::kCancelled);
  EXPECT_TRUE(ended(1)->ok());
  scheduler().tick(now());
  EXPECT_EQ(decode(), 0);
  const Open other = accepting({4, 5, 6}, 20);
  open(2, other);
  decode();
  EXPECT_EQ(answer(2), expected(other));
}

TEST_F(ModelDraftTest, ALongPromptIsNotReadForAShortAnswer) {
  draft_.row = from_ms(1);  // a pass of the target takes 2
  begin();
  std::vector<TokenId> prompt = prompt_of(150);
  for (StreamId stream = 1; stream <= 3; ++stream) {
    prompt[0] = static_cast<TokenId>(stream);  // each another prompt
    open(stream, accepting(prompt, 12));
    decode();
  }
  EXPECT_LT(draft_.passes(), 8) << "only the first one showed what reading takes";
}

TEST_F(ModelDraftTest, ALongPromptIsReadInParts) {
  begin();
  const Open asked = accepting(prompt_of(200), 20);
  open(1, asked);
  decode();
  EXPECT_EQ(answer(1), expected(asked));
  EXPECT_LE(draft_.most_rows, 64u);
}

}  // namespace
}  // namespace outrider
