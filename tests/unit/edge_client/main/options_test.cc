// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

AnswerOptions parse(const std::string& command_line, const EdgeParts& parts = {}) {
  CLI::App app;
  AnswerOptions options;
  add_answer_flags(app, options, parts);
  app.parse(command_line);
  return options;
}

// Why the flags of a command line are refused together.
Status problem(const std::string& command_line) {
  return generation_config(parse(command_line)).status();
}

TEST(AnswerFlags, HaveTheNamesPeopleKnow) {
  const AnswerOptions options = parse(
      "--model d --server h:1 --strategy sd --spec-draft-n-max 7 -n 20 -c 100 --temp 0.5 --top-k 3 "
      "--top-p 0.9 --min-p 0.1 --seed 9 --stop a --stop b --dtype bf16 --threads 2");
  const AnswerConfig& answer = options.generation.answer;
  EXPECT_EQ(answer.speculation.strategy, Strategy::kSd);
  EXPECT_EQ(answer.speculation.gamma, 7);
  EXPECT_EQ(answer.text.max_tokens, 20);
  EXPECT_EQ(answer.context, 100);
  EXPECT_EQ(answer.text.choice.sampling.top_k, 3);
  EXPECT_EQ(answer.text.choice.seed, 9u);
  EXPECT_THAT(answer.text.stop, testing::ElementsAre("a", "b"));
}

TEST(AnswerFlags, ASeedThatIsNotGivenIsDrawnAndMinusOneAsksForThat) {
  EXPECT_TRUE(parse("--temp 1").generation.answer.text.draws_seed);
  EXPECT_TRUE(parse("--seed -1").generation.answer.text.draws_seed);
  EXPECT_FALSE(parse("--seed 0").generation.answer.text.draws_seed);
  EXPECT_EQ(parse("--seed 18446744073709551615").generation.answer.text.choice.seed,
            ~std::uint64_t{0});
  for (const char* seed : {"-2", "1.5", "x", "010", "18446744073709551616"}) {
    EXPECT_THROW(parse(std::string("--seed ") + seed), CLI::ParseError) << seed;
  }
}

TEST(AnswerFlags, WhatTheySayOfSamplingIsKeptFromTheTargets) {
  const GenerationConfig said = parse("--top-k 3 --temp 0.5").generation;
  EXPECT_EQ(said.sampling, (SamplingDefaults{.temperature = 0.5f, .top_k = 3}));
  EXPECT_EQ(said.generation_config, GenerationConfigUse::kAuto);
  EXPECT_EQ(parse("--generation-config none").generation.generation_config,
            GenerationConfigUse::kNone);
  EXPECT_THROW(parse("--generation-config x.json"), CLI::ParseError);
  EXPECT_EQ(GenerationConfig().generation_config, GenerationConfigUse::kNone)
      << "what compares answers says itself how they are sampled";
}

TEST(AnswerFlags, MinusOneMeansUntilItStops) {
  EXPECT_EQ(parse("-n -1").generation.answer.text.max_tokens, -1);
}

TEST(AnswerFlags, RefuseWhatCannotBeMeant) {
  EXPECT_THROW(parse("-n -2"), CLI::ParseError);
  EXPECT_THROW(parse("--temp -1"), CLI::ParseError);
  EXPECT_THROW(parse("--top-p 1.5"), CLI::ParseError);
  EXPECT_THROW(parse("--spec-draft-n-max 0"), CLI::ParseError);
  EXPECT_THROW(parse("--strategy fast"), CLI::ParseError);
  EXPECT_THROW(parse("--draft-branches 0"), CLI::ParseError);
}

TEST(AnswerFlags, AServerThatIsNotOutridersIsAskedForWhatItCanDoOnly) {
  const std::string stock = "--model d --server 127.0.0.1:1 --server-api llama-cpp ";
  const auto config = generation_config(parse(stock + "--server-model m"));
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->server_api, ServerApi::kLlamaCpp);
  EXPECT_EQ(config->server_model, "m");
  EXPECT_TRUE(generation_config(parse(stock + "--offline-target t")).ok());
  EXPECT_THAT(problem(stock + "--target t").message(), HasSubstr("Remedy: --offline-target"));
  EXPECT_THAT(problem(stock + "--temp 0.5").message(), HasSubstr("does not know --temp above 0"));
  EXPECT_THAT(problem(stock + "--tree lever").message(), HasSubstr("--tree lever"));
  EXPECT_THAT(problem(stock + "--pad-frames").message(), HasSubstr("--pad-frames"));
  EXPECT_THAT(problem("--model d --server-model m").message(), HasSubstr("--server-api vllm"));
  EXPECT_THAT(problem("--offline --target t --server-api vllm").message(),
              HasSubstr("--server-api vllm is of a server"));
}

TEST(AnswerFlags, ChooseALevelOfAnElasticTarget) {
  const auto config = generation_config(
      parse("--target t --elastic e.json --slo time_ms=800,ttft_ms=300 --slo-strict"));
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->answer.wish.slo.time_ms, 800);
  EXPECT_EQ(config->answer.wish.slo.ttft_ms, 300);
  EXPECT_TRUE(config->answer.wish.slo.strict);
  EXPECT_EQ(generation_config(parse("--target t --elastic e.json --level 60"))->answer.wish.level,
            "60");
}

TEST(AnswerFlags, LevelsAreRefusedWhereThereAreNone) {
  EXPECT_THAT(problem("--target t --level 60").message(), HasSubstr("--level chooses a level"));
  EXPECT_THAT(problem("--target t --slo time_ms=8").message(),
              HasSubstr("--slo chooses a level of an elastic target, and there is none"));
  EXPECT_THAT(problem("--server h:1 --insecure --elastic e.json").message(),
              HasSubstr("is a table of --target"));
  EXPECT_THAT(problem("--target t --elastic e.json --prune 0.1").message(), HasSubstr("--prune"));
  for (const char* slo : {"800", "time=800", "time_ms=soon", "time_ms="}) {
    EXPECT_THAT(problem("--target t --elastic e.json --slo " + std::string(slo)).message(),
                AllOf(HasSubstr(slo), HasSubstr("as time_ms=800")));
  }
  EXPECT_THAT(problem("--target t --elastic e.json --slo time_ms=0").message(),
              HasSubstr("slo.time_ms is 0"));
}

TEST(AnswerFlags, AServerAnswersByOneLevelThatIsNamed) {
  const std::string server = "--server h:1 --insecure --level 60";
  EXPECT_EQ(generation_config(parse(server))->answer.wish.level, "60");
  EXPECT_EQ(problem(server + " --target t --elastic e.json"), Status());
  EXPECT_THAT(problem(server + " --target t").message(), HasSubstr("there is none"))
      << "the device could not go on";
  for (const char* level : {"60,12:40", "auto"}) {
    EXPECT_THAT(problem("--server h:1 --insecure --level " + std::string(level)).message(),
                AllOf(HasSubstr(level), HasSubstr("answers an edge by one level")));
  }
  EXPECT_THAT(problem("--server h:1 --insecure --slo time_ms=800").message(),
              HasSubstr("--slo chooses a level by the times of this device's target"));
}

TEST(AnswerFlags, JoulesNeedTheDevicesPower) {
  const std::string file = " --power-file phone.toml";
  const std::string levels = "--target t --elastic e.json --slo energy_j=5";
  EXPECT_THAT(problem(levels).message(),
              HasSubstr("--slo energy_j needs to know what this device takes. Remedy: --power-fi"));
  EXPECT_EQ(generation_config(parse(levels + file))->answer.wish.slo.energy_j, 5);
}

TEST(AnswerFlags, ALevelDraftsInPlaceOfAModel) {
  const std::string elastic = "--target t --elastic e.json --draft-level 60 ";
  const auto config = generation_config(parse(elastic));
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_TRUE(drafts_by_model(*config));
  EXPECT_FALSE(drafts_by_lookup(*config));
  EXPECT_TRUE(drafts_by_lookup(*generation_config(parse(elastic + "--draft-source both"))));
  EXPECT_THAT(problem("--target t --draft-level 60").message(),
              HasSubstr("a level of an elastic target, and there is none"));
  EXPECT_THAT(problem(elastic + "--model d").message(), HasSubstr("--model names d"));
  EXPECT_THAT(problem(elastic + "--draft-source lookup").message(),
              HasSubstr("--draft-source is lookup"));
}

TEST(AnswerFlags, AnUnverifiedAnswerNeedsADeadlineAndADraftAndNoLevels) {
  const auto config = generation_config(parse("--target t --slo time_ms=800 --slo-unverified"));
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_TRUE(config->answer.wish.slo.unverified);
  EXPECT_THAT(problem("--target t --slo-unverified").message(), HasSubstr("time_ms"));
  EXPECT_THAT(problem("--target t --slo time_ms=8 --slo-unverified --slo-strict").message(),
              HasSubstr("slo.strict"));
  EXPECT_THAT(problem("--target t --slo time_ms=8 --slo-unverified --draft-source none").message(),
              HasSubstr("nothing drafts here"));
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
  EXPECT_TRUE(wants_draft(parse("--model d").generation));
  EXPECT_FALSE(wants_draft(parse("--model d --strategy ar").generation));
  EXPECT_FALSE(wants_draft(parse("--model d --draft-source none").generation));
  const auto source = [](const char* line) { return draft_source_of(parse(line).generation); };
  EXPECT_EQ(source("--model d"), DraftSource::kModel);
  EXPECT_EQ(source("--tokenizer d"), DraftSource::kLookup);
  EXPECT_EQ(source("--model d --draft-source both"), DraftSource::kBoth);
}

TEST(Strategy, MirrorsUnlessAnotherIsNamed) {
  const auto strategy = [](const char* line) {
    return parse(line).generation.answer.speculation.chosen();
  };
  EXPECT_EQ(strategy("--model d"), Strategy::kMirror);
  EXPECT_EQ(strategy("--model d --strategy fsd"), Strategy::kFsd);
  EXPECT_EQ(strategy("--model d --strategy sd"), Strategy::kSd);
}

TEST(DraftingAhead, HasItsFlags) {
  const AnswerOptions options = parse(
      "--model d --predraft-workers 7 --fan-out 2 --optimize cost "
      "--uplink-budget 5000 --explain --trace f");
  const AnswerConfig& answer = options.generation.answer;
  EXPECT_EQ(answer.speculation.optimize, Optimize::kCost);
  EXPECT_EQ(options.generation.drafter.workers, 7);
  EXPECT_EQ(answer.speculation.fan_out, 2);
  EXPECT_EQ(answer.speculation.uplink_budget, 5000);
  EXPECT_TRUE(options.explain);
  EXPECT_EQ(options.trace, "f");
  const AnswerConfig standing = parse("--model d").generation.answer;
  EXPECT_EQ(standing.speculation.queue, QueueOrder::kPriority);
  EXPECT_EQ(standing.speculation.optimize, Optimize::kLatency);
  EXPECT_EQ(standing.speculation.branches, 1);
  EXPECT_EQ(parse("--draft-branches 2").generation.answer.speculation.branches, 2);
  EXPECT_THROW(parse("--predraft-workers 0"), CLI::ParseError);
}

TEST(Strategy, ContradictionsAboutDraftsNameFlagAndRemedy) {
  const auto refused = [](const char* line, const char* flag) {
    const Status status = problem(line);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(status.message(), HasSubstr(flag));
  };
  refused("--tokenizer d --draft-source both", "--model");
  refused("--tokenizer d --draft-source model", "--draft-source lookup");
  refused("--tokenizer d --strategy sd --draft-source none", "--draft-source is none");
  refused("--model d --lookup-corpus texts", "--draft-source lookup or both");
}

TEST(Guests, AreChosenByNameOnlyWhereAProgramBringsThemAlong) {
  const GuestStrategy strategies[] = {{"theirs", nullptr}};
  const GuestTree trees[] = {{"oak", nullptr}};
  const EdgeParts parts{.strategies = strategies, .trees = trees};
  const StrategyChoice theirs =
      parse("--strategy theirs", parts).generation.answer.speculation.chosen();
  EXPECT_EQ(theirs, Strategy::kGuest);
  EXPECT_EQ(&theirs.guest(), strategies);
  EXPECT_EQ(parse("--strategy fsd", parts).generation.answer.speculation.chosen(), Strategy::kFsd);
  const GenerationConfig oak = *generation_config(parse("--model d --tree oak", parts));
  EXPECT_EQ(&oak.answer.speculation.tree.kind.guest(), trees);
  EXPECT_EQ(oak.answer.speculation.chosen(), Strategy::kSd) << "trees are rounds of sd";
  const auto both = generation_config(parse("--model d --tree oak --strategy theirs", parts));
  EXPECT_THAT(both.status().message(), HasSubstr("--tree oak is a round of --strategy sd"));
  EXPECT_THROW(parse("--strategy theirs"), CLI::ParseError);
  EXPECT_THROW(parse("--tree oak"), CLI::ParseError);
}

TEST(Plaintext, StaysOnThisMachineUnlessAllowed) {
  const Status status = problem("--model d --server example.org:8001");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("plaintext"), HasSubstr("--insecure")));
  EXPECT_TRUE(problem("--model d --server example.org:8001 --insecure").ok());
  EXPECT_TRUE(problem("--model d --server [::1]:8001").ok());
  EXPECT_FALSE(problem("--model d --server nonsense --target t").ok());
  EXPECT_TRUE(problem("--model d --server example.org:8001 --target t --mode offline").ok());
}

TEST(TokenizerDirectory, IsTheTargetsThenTheModels) {
  EXPECT_EQ(*tokenizer_directory(parse("--tokenizer a --model b --target c").generation), "a");
  EXPECT_EQ(*tokenizer_directory(parse("--model b --target c").generation), "c");
  EXPECT_EQ(*tokenizer_directory(parse("--model b").generation), "b");
  EXPECT_EQ(*tokenizer_directory(parse("--target c").generation), "c");
  EXPECT_EQ(tokenizer_directory(parse("").generation).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(Modes, FollowWhatIsNamed) {
  const auto mode = [](const std::string& flags) { return mode_of(parse(flags).generation); };
  EXPECT_EQ(mode("--model d"), Mode::kOnline);
  EXPECT_EQ(mode("--model d --server [::1]:8001"), Mode::kOnline);
  EXPECT_EQ(mode("--model d --target t"), Mode::kOffline);
  EXPECT_EQ(mode("--model d --target t --server [::1]:8001"), Mode::kAuto);
  EXPECT_EQ(mode("--model d --offline-target t --server [::1]:8001"), Mode::kAuto);
  EXPECT_EQ(mode("--model d --target t --server [::1]:8001 --mode online"), Mode::kOnline);
  EXPECT_EQ(mode("--model d --target t --mode auto"), Mode::kAuto);
}

TEST(Modes, NeedTheirTargets) {
  EXPECT_THAT(problem("--model d --mode auto").message(), HasSubstr("--target"));
  EXPECT_THAT(problem("--model d --mode offline").message(), HasSubstr("--target"));
  EXPECT_THAT(problem("--model d --target t --offline-target u").message(),
              HasSubstr("two targets"));
  EXPECT_THAT(problem("--model d --target t --metered-limit 5").message(), HasSubstr("--server"));
}

}  // namespace
}  // namespace outrider
