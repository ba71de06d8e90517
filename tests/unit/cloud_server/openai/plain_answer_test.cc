// An answer without a draft: the request to the verifier, and what its verdicts become.
// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/openai/plain_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <variant>
#include <vector>

#include "common/serving/record/record_reader.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

using testing::HasSubstr;

constexpr Position kContext = 1024;

class PlainAnswerTest : public testing::Test {
 protected:
  Result<PlainAnswer> begin(std::size_t prompt_tokens = 3) {
    return PlainAnswer::begin(tokenizer_,
                              {.ids = std::vector<TokenId>(prompt_tokens, 5), .stop_ids = {7}},
                              params_, kContext, "hash");
  }
  std::vector<TokenId> ids(const std::string& text) const { return *tokenizer_.encode(text); }

  // The text of all pieces, and the last step.
  static std::string feed(PlainAnswer& answer, const std::vector<TokenId>& tokens,
                          PlainAnswer::Step& last) {
    std::string text;
    for (const TokenId token : tokens) {
      last = answer.on_message(Verdict{.tokens = {token}});
      for (const AnswerPiece& piece : last.pieces) text += piece.text;
      if (last.end) break;
    }
    return text;
  }

  const Tokenizer tokenizer_ = *Tokenizer::load(source_dir() + "/models/demo-draft");
  CompletionParams params_;
};

TEST_F(PlainAnswerTest, AsksForWhatTheClientAskedFor) {
  params_.text.choice.sampling.temperature = 0.5f;
  params_.text.choice.seed = 9;
  params_.text.max_tokens = 20;
  const auto answer = begin();
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  const EdgeMessage message = answer->open();
  const Open& open = std::get<Open>(message.body);
  EXPECT_EQ(open.prefix.size(), 3u);
  EXPECT_EQ(open.end_position, 23u);
  EXPECT_EQ(open.seed, 9u);
  EXPECT_EQ(open.sampling, params_.text.choice.sampling);
  EXPECT_EQ(open.stop_ids, std::vector<TokenId>{7});
  EXPECT_EQ(open.policy.pass_policy, PassPolicy::kEager);
  params_.text.max_tokens = -1;
  const EdgeMessage unbounded = begin()->open();
  EXPECT_EQ(std::get<Open>(unbounded.body).end_position, kContext);
}

TEST_F(PlainAnswerTest, ARecordHasWhatTheVerdictsGaveUpToTheStopString) {
  params_.text.stop = {"stop"};
  params_.text.choice.seed = 9;
  Result<PlainAnswer> answer = begin(30);
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  const EdgeMessage before = answer->open();
  EXPECT_FALSE(std::get<Open>(before.body).wants_digests) << "nothing is computed unasked";
  const std::unique_ptr<Recorder> recorder = *Recorder::open({});
  answer->record_by(*recorder, "template");
  const EdgeMessage asked = answer->open();
  EXPECT_TRUE(std::get<Open>(asked.body).wants_digests);
  EXPECT_EQ(std::get<Open>(asked.body).template_hash, "");
  (void)answer->on_message(Opened{.arithmetic_id = "a51d", .server_version = "1"});
  const std::vector<TokenId> said = ids("go and stop here and there");
  const std::vector<TokenId> whole = ids("go and stop");
  const PlainAnswer::Step step =
      answer->on_message(Verdict{.tokens = said, .digests = {1, 2, 3, 4, 5, 6}});
  ASSERT_TRUE(step.end);
  EXPECT_EQ(step.end->record, step.record.lines);
  const Result<RecordedAnswer> record = check_record({.lines = step.record.lines}, "");
  ASSERT_TRUE(record.ok()) << record.status().to_string();
  EXPECT_EQ(record->terms.seed, 9u);
  EXPECT_EQ(record->terms.template_hash, "template");
  EXPECT_EQ(record->stretches[0].ids, whole);
  EXPECT_EQ(record->ending(), "stop_string");
}

TEST_F(PlainAnswerTest, WhereItLoopsItIsOpenedAgainForALargerLevelWhateverVerdictsBring) {
  const std::vector<LevelProfile> levels{{.name = "100"}, {.name = "60"}, {.name = "40"}};
  params_.text.max_tokens = 40;
  const std::vector<TokenId> round = ids(" go right at");
  std::vector<TokenId> loop;
  while (loop.size() < 30) loop.push_back(round[loop.size() % round.size()]);
  for (const std::size_t of_verdict : {1u, 3u, 7u, 30u}) {
    PlainAnswer answer = *begin();
    answer.follow({LevelChoice{.level = 2, .leaves_loops = true}, levels});
    (void)answer.on_message(Opened{.session_id = "first", .stop_ids = {7}});
    PlainAnswer::Step step;
    std::vector<TokenId> shown;
    for (std::size_t at = 0; at < loop.size() && !step.level; at += of_verdict) {
      const std::size_t end = std::min(at + of_verdict, loop.size());
      step =
          answer.on_message(Verdict{.tokens = {loop.begin() + static_cast<std::ptrdiff_t>(at),
                                               loop.begin() + static_cast<std::ptrdiff_t>(end)}});
      for (const AnswerPiece& piece : step.pieces) shown.push_back(piece.id);
    }
    EXPECT_EQ(step.level, 1u) << of_verdict;
    EXPECT_EQ(shown.size(), 16u) << "what a verdict has behind that token is another level's";
    const EdgeMessage again = answer.open();
    const Open& open = std::get<Open>(again.body);
    ASSERT_EQ(open.prefix.size(), 3u + 16u);
    EXPECT_TRUE(std::equal(shown.begin(), shown.end(), open.prefix.begin() + 3));
    EXPECT_EQ(open.end_position, 43) << "the answer becomes no longer";
    EXPECT_EQ(open.replaced_session, "first");
    (void)answer.on_message(Opened{.session_id = "second", .stop_ids = {7}});
    step = answer.on_message(Verdict{.position = 19, .tokens = {7}});
    EXPECT_FALSE(step.level);
    const AnswerEnd end = *answer.on_message(Usage{.cached_tokens = 12}).end;
    EXPECT_EQ(end.usage.prompt_tokens, 3u);
    EXPECT_EQ(end.usage.cached_tokens, 3u) << "of the prompt";
    EXPECT_EQ(end.usage.completion_tokens, 17u);
    ASSERT_EQ(answer.switches().size(), 1u);
    EXPECT_EQ(answer.switches()[0].from_token, 16);
  }
}

TEST_F(PlainAnswerTest, NoLevelGoesOnBehindTheAnswersEndNorWhereTheVerifierShutsDown) {
  const std::vector<LevelProfile> levels{{.name = "100"}, {.name = "60"}};
  const std::vector<TokenId> loop(16, ids(" go")[0]);
  const auto goes_on = [&](const PlainAnswer::Step& step) { return step.level.has_value(); };
  const LevelTrack track{LevelChoice{.level = 1, .leaves_loops = true}, levels};
  params_.text.max_tokens = 17;
  PlainAnswer answer = *begin();
  answer.follow(track);
  EXPECT_TRUE(goes_on(answer.on_message(Verdict{.tokens = loop})));
  params_.text.max_tokens = 16;
  PlainAnswer whole = *begin();
  whole.follow(track);
  EXPECT_FALSE(goes_on(whole.on_message(Verdict{.tokens = loop})));
  params_.text.max_tokens = 17;
  PlainAnswer drained = *begin();
  drained.follow(track);
  (void)drained.on_message(Notice{});
  EXPECT_FALSE(goes_on(drained.on_message(Verdict{.tokens = loop})));
  PlainAnswer stopped = *begin();
  stopped.follow({LevelChoice{.level = 1, .then = {{.from_token = 1, .level = 0}}}, levels});
  (void)stopped.on_message(Opened{.stop_ids = {7}});
  EXPECT_FALSE(goes_on(stopped.on_message(Verdict{.tokens = {7}}))) << "it ends there";
}

TEST_F(PlainAnswerTest, PromptsWithoutRoomAreRefused) {
  EXPECT_THAT(begin(0).status().message(), HasSubstr("empty"));
  EXPECT_THAT(begin(kContext).status().message(), HasSubstr("1024"));
  params_.text.stop = {""};
  EXPECT_FALSE(begin().ok());
}

TEST_F(PlainAnswerTest, TellsTheTextAndWhyItEnded) {
  PlainAnswer answer = *begin();
  PlainAnswer::Step step;
  const std::string text = "I turn to face the lift.";
  std::string shown = feed(answer, ids(text), step);
  EXPECT_FALSE(step.end);
  step = answer.on_message(Usage{.reason = FinishReason::kLength});
  for (const AnswerPiece& piece : step.pieces) shown += piece.text;
  EXPECT_EQ(shown, text);
  EXPECT_EQ(answer.text(), text);
  ASSERT_TRUE(step.end);
  EXPECT_TRUE(step.end->by_length);
  EXPECT_EQ(step.end->usage.prompt_tokens, 3u);
  EXPECT_EQ(step.end->usage.completion_tokens, ids(text).size());
  EXPECT_TRUE(answer.on_message(Verdict{.tokens = {5}}).pieces.empty()) << "it is over";
}

TEST_F(PlainAnswerTest, ItsEndNamesTheSeedOfASampledAnswer) {
  const auto seed_of = [this] {
    PlainAnswer answer = *begin();
    return answer.on_message(Usage{.reason = FinishReason::kLength}).end->seed;
  };
  params_.text.choice.seed = 9;
  EXPECT_EQ(seed_of(), std::nullopt) << "nothing is drawn";
  params_.text.choice.sampling.temperature = 0.5f;
  EXPECT_EQ(seed_of(), 9u);
}

TEST_F(PlainAnswerTest, TheModelsStopTokensAreIgnoredIfAskedFor) {
  params_.text.ignore_eos = true;
  params_.text.max_tokens = 9;
  const auto answer = begin();
  const EdgeMessage message = answer->open();
  EXPECT_TRUE(std::get<Open>(message.body).ignore_target_stops);
  EXPECT_TRUE(std::get<Open>(message.body).stop_ids.empty());
}

TEST_F(PlainAnswerTest, AnAnswerThatWasCutIsNoAnswer) {
  for (const FinishReason reason : {FinishReason::kCancelled, FinishReason::kError}) {
    PlainAnswer answer = *begin();
    const PlainAnswer::Step step = answer.on_message(Usage{.reason = reason});
    EXPECT_FALSE(step.end);
    EXPECT_EQ(step.failure.code(), StatusCode::kUnavailable);
  }
}

TEST_F(PlainAnswerTest, AStopStringEndsItAtTheVerifierToo) {
  params_.text.stop = {" face"};
  PlainAnswer answer = *begin();
  PlainAnswer::Step step;
  EXPECT_EQ(feed(answer, ids("I turn to face the lift."), step), "I turn to");
  ASSERT_TRUE(step.end);
  EXPECT_FALSE(step.end->by_length);
  EXPECT_EQ(step.end->stop_text, " face");
  ASSERT_TRUE(step.reply);
  EXPECT_TRUE(std::holds_alternative<Cancel>(step.reply->body));
}

TEST_F(PlainAnswerTest, PassesOnTheLogprobsOfThePrompt) {
  params_.text.top_logprobs = 1;
  EXPECT_FALSE(std::get<Open>(begin()->open().body).prompt_logprobs);
  params_.text.prompt_logprobs = true;
  PlainAnswer answer = *begin();
  EXPECT_TRUE(std::get<Open>(answer.open().body).prompt_logprobs);
  const std::vector<TokenLogprobs> told = {{.chosen = -1}, {.chosen = -2}};
  EXPECT_EQ(answer.on_message(PromptLogprobs{1, told}).prompt_logprobs, told);
  EXPECT_TRUE(answer.on_message(Verdict{.tokens = {5}}).prompt_logprobs.empty());
}

TEST_F(PlainAnswerTest, AcknowledgesBeforeTheVerifierPauses) {
  PlainAnswer answer = *begin();
  std::size_t replies = 0;
  for (int i = 0; i < 200; ++i) {
    const PlainAnswer::Step step = answer.on_message(Verdict{.tokens = {5}});
    if (!step.reply) continue;
    ++replies;
    EXPECT_EQ(step.reply->acked_position, 3u + static_cast<Position>(i) + 1);
  }
  EXPECT_EQ(replies, 3u);
}

}  // namespace
}  // namespace outrider
