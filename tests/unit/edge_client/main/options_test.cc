// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

AnswerOptions parse(const std::string& command_line) {
  CLI::App app;
  AnswerOptions options;
  add_answer_flags(app, options);
  app.parse(command_line);
  return options;
}

TEST(AnswerFlags, HaveTheNamesPeopleKnow) {
  const AnswerOptions options = parse(
      "--model d --server h:1 --strategy sd --spec-draft-n-max 7 -n 20 -c 100 --temp 0.5 --top-k 3 "
      "--top-p 0.9 --min-p 0.1 --seed 9 --stop a --stop b --dtype bf16 --threads 2");
  EXPECT_EQ(options.gamma, 7);
  EXPECT_EQ(options.max_tokens, 20);
  EXPECT_EQ(options.context, 100);
  EXPECT_EQ(options.sampling.top_k, 3);
  EXPECT_EQ(options.seed, 9u);
  EXPECT_THAT(options.stop, testing::ElementsAre("a", "b"));
}

TEST(AnswerFlags, MinusOneMeansUntilItStops) {
  EXPECT_EQ(parse("-n -1").max_tokens, -1);
}

TEST(AnswerFlags, RefuseWhatCannotBeMeant) {
  EXPECT_THROW(parse("-n -2"), CLI::ParseError);
  EXPECT_THROW(parse("--temp -1"), CLI::ParseError);
  EXPECT_THROW(parse("--top-p 1.5"), CLI::ParseError);
  EXPECT_THROW(parse("--spec-draft-n-max 0"), CLI::ParseError);
  EXPECT_THROW(parse("--strategy fast"), CLI::ParseError);
}

TEST(PromptFlags, TakeOnePromptAndKnowAnEmptyOneFromNone) {
  CLI::App app;
  PromptOptions options;
  add_prompt_flags(app, options);
  EXPECT_THROW(app.parse("-p a -f b"), CLI::ParseError);
  app.parse(std::vector<std::string>{"", "-p"});
  EXPECT_EQ(options.prompt, "");
  PromptOptions none;
  CLI::App other;
  add_prompt_flags(other, none);
  other.parse("--raw");
  EXPECT_EQ(none.prompt, std::nullopt);
}

TEST(Strategy, FollowsTheModelUnlessSaid) {
  EXPECT_TRUE(wants_draft(parse("--model d")));
  EXPECT_FALSE(wants_draft(parse("--tokenizer d")));
  EXPECT_FALSE(wants_draft(parse("--model d --strategy ar")));
}

TEST(Strategy, MirrorsUnlessAnotherIsNamed) {
  EXPECT_EQ(strategy_of(parse("--model d")), Strategy::kMirror);
  EXPECT_EQ(strategy_of(parse("--model d --strategy fsd")), Strategy::kFsd);
  EXPECT_EQ(strategy_of(parse("--model d --strategy sd")), Strategy::kSd);
}

TEST(DraftingAhead, HasItsFlags) {
  const AnswerOptions options = parse(
      "--model d --client-queue fifo --predraft-workers 7 --fan-out 2 --optimize cost "
      "--uplink-budget 5000 --explain --trace f");
  EXPECT_EQ(queue_of(options), QueueOrder::kFifo);
  EXPECT_EQ(goal_of(options), Optimize::kCost);
  EXPECT_EQ(options.predraft_workers, 7);
  EXPECT_EQ(options.fan_out, 2);
  EXPECT_EQ(options.uplink_budget, 5000);
  EXPECT_TRUE(options.explain);
  EXPECT_EQ(options.trace, "f");
  EXPECT_EQ(queue_of(parse("--model d")), QueueOrder::kPriority);
  EXPECT_EQ(goal_of(parse("--model d")), Optimize::kLatency);
  EXPECT_THROW(parse("--client-queue lifo"), CLI::ParseError);
  EXPECT_THROW(parse("--predraft-workers 0"), CLI::ParseError);
}

TEST(Strategy, SpeculatingNeedsADraft) {
  const Status status = validate(parse("--strategy sd"));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("--model"));
}

TEST(Plaintext, StaysOnThisMachineUnlessAllowed) {
  const Status status = validate(parse("--model d --server example.org:8001"));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("plaintext"), HasSubstr("--insecure")));
  EXPECT_TRUE(validate(parse("--model d --server example.org:8001 --insecure")).ok());
  EXPECT_TRUE(validate(parse("--model d --server [::1]:8001")).ok());
  EXPECT_TRUE(validate(parse("--model d --server nonsense --target t")).ok());
}

TEST(TokenizerDirectory, IsTheModelsThenTheTargets) {
  EXPECT_EQ(*tokenizer_directory(parse("--tokenizer a --model b --target c")), "a");
  EXPECT_EQ(*tokenizer_directory(parse("--model b --target c")), "b");
  EXPECT_EQ(*tokenizer_directory(parse("--target c")), "c");
  EXPECT_EQ(tokenizer_directory(parse("")).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
