// Self-speculation: a level of the demo target drafts for the larger ones.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "edge_client/flash/make_pack.h"
#include "edge_client/generation/edge_setup.h"
#include "tests/support/paths.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SilentListener final : public AnswerListener {
 public:
  void on_emit(const Emit&) override {}
  void on_say(const Say&) override {}
  void on_prefill(const PrefillProgress&) override {}
};

GenerationConfig self_drafting(const std::string& draft_level) {
  GenerationConfig config;
  config.target = source_dir() + "/models/demo-target";
  config.elastic = config.target + "/elastic.json";
  config.draft_level = draft_level;
  config.loading.threads = 1;
  config.state_dir = "none";
  config.answer.text.max_tokens = 32;
  return config;
}

// The same over a pack by level, in the smallest budget that has the draft in memory.
GenerationConfig streamed_self_drafting(const TestDirectory& directory,
                                        const std::string& draft_level) {
  GenerationConfig config = self_drafting(draft_level);
  const std::string pack = directory.path("demo-target.pack");
  const Status packed =
      make_pack({.model = config.target, .out = pack, .elastic = true, .threads = 1});
  EXPECT_TRUE(packed.ok()) << packed.to_string();
  config.target = pack;
  config.elastic.clear();
  config.answer.context = 256;
  std::uint64_t less = 0, enough = std::uint64_t{1} << 30;
  while (enough - less > kDirectAlignment) {
    config.flash.memory_budget = less + (enough - less) / 2;
    (LocalTarget::check_budget(config).ok() ? enough : less) = config.flash.memory_budget;
  }
  config.flash.memory_budget = enough;
  return config;
}

enum class Home { kMemory, kFlash };

class DraftLevelTest : public testing::TestWithParam<Home> {
 protected:
  void SetUp() override {
    const GenerationConfig config = GetParam() == Home::kMemory
                                        ? self_drafting("60")
                                        : streamed_self_drafting(directory_, "60");
    ASSERT_TRUE(validate(config).ok()) << validate(config).to_string();
    auto setup = EdgeSetup::load(config);
    ASSERT_TRUE(setup.ok()) << setup.status().to_string();
    setup_ = *std::move(setup);
    generator_ = std::make_unique<Generator>(setup_->parts(), listener_);
    answer_ = config.answer;
  }

  AnswerRecord answered(const std::string& level, Strategy strategy, float temperature) {
    const char* scene = "In view: silver bottle 20 degrees left at 2.1 m. Task: find it.";
    AnswerRequest request{
        .prompt = *encode_prompt(setup_->tokenizer(), *setup_->chat().now(), scene, ""),
        .config = answer_};
    request.config.wish.level = level;
    request.config.speculation.strategy = strategy;
    request.config.text.choice.sampling.temperature = temperature;
    request.config.text.choice.seed = 7;
    const Result<AnswerReport> report = generator_->answer(std::move(request), {});
    EXPECT_TRUE(report.ok()) << report.status().to_string();
    return report.ok() ? report->record : AnswerRecord();
  }

  TestDirectory directory_;
  SilentListener listener_;
  std::unique_ptr<EdgeSetup> setup_;
  std::unique_ptr<Generator> generator_;
  AnswerConfig answer_;
};

TEST_P(DraftLevelTest, TheTextIsThatOfTheLevelAlone) {
  for (const std::string level : {"100", "80", "60", "40"}) {
    for (const float temperature : {0.0f, 0.8f}) {
      const AnswerRecord plain = answered(level, Strategy::kAr, temperature);
      EXPECT_FALSE(plain.ids.empty());
      for (const Strategy strategy : {Strategy::kSd, Strategy::kMirror}) {
        EXPECT_EQ(answered(level, strategy, temperature).ids, plain.ids)
            << "level " << level << ", " << name_of(strategy) << ", T " << temperature;
      }
    }
  }
}

TEST_P(DraftLevelTest, ALevelDraftsForLargerOnesOnly) {
  const AnswerRecord full = answered("100", Strategy::kSd, 0);
  EXPECT_EQ(full.draft, "demo-target@60");
  EXPECT_GT(full.stats.num_accepted_tokens, 0u);
  EXPECT_LT(full.stats.passes, full.ids.size());
  for (const std::string level : {"60", "40"}) {
    const AnswerRecord small = answered(level, Strategy::kSd, 0);
    EXPECT_EQ(small.stats.num_draft_tokens, 0u);
    EXPECT_THAT(small.speculation, AllOf(HasSubstr("OFF because level " + level),
                                         HasSubstr("demo-target@60 is no smaller")));
  }
  EXPECT_GT(answered("80", Strategy::kSd, 0).stats.num_accepted_tokens, 0u);
}

TEST_P(DraftLevelTest, BehindASwitchToOneThatIsNoLargerItRests) {
  const AnswerRecord drafted = answered("100,4:60", Strategy::kSd, 0);
  EXPECT_EQ(drafted.ids, answered("100,4:60", Strategy::kAr, 0).ids);
  ASSERT_GT(drafted.ids.size(), 12u);
  EXPECT_GT(drafted.stats.num_draft_tokens, 0u);
  EXPECT_LT(drafted.stats.num_draft_tokens, 16u);
  EXPECT_GT(answered("100,4:80", Strategy::kSd, 0).stats.num_draft_tokens, 16u);
}

INSTANTIATE_TEST_SUITE_P(Homes, DraftLevelTest, testing::Values(Home::kMemory, Home::kFlash));

TEST(StreamedDraftLevelTest, AnswersStreamWhatTheDraftDoesNotHold) {
  TestDirectory directory;
  GenerationConfig config = streamed_self_drafting(directory, "60");
  config.answer.speculation.strategy = Strategy::kSd;  // whatever its drafts are worth here
  const auto setup = EdgeSetup::load(config);
  ASSERT_TRUE(setup.ok()) << setup.status().to_string();
  ASSERT_NE((*setup)->flash(), nullptr);
  const MemoryPlan& plan = (*setup)->flash()->plan();
  EXPECT_GT(plan.streamed_bytes, 0u);
  EXPECT_TRUE(plan.pinned_head);
  EXPECT_GE(plan.resident_extents, 3u);  // levels 40, 50 and 60
  SilentListener listener;
  Generator generator((*setup)->parts(), listener);
  const char* scene = "In view: silver bottle 20 degrees left at 2.1 m. Task: find it.";
  AnswerRequest request{
      .prompt = *encode_prompt((*setup)->tokenizer(), *(*setup)->chat().now(), scene, ""),
      .config = config.answer};
  const AnswerRecord record = generator.answer(std::move(request), {})->record;
  EXPECT_EQ(record.draft, "demo-target@60");
  EXPECT_GT(record.stats.num_accepted_tokens, 0u);
  ASSERT_TRUE(record.streamed.has_value());
  EXPECT_LT(record.streamed->passes, record.ids.size());

  config.flash.memory_budget -= std::uint64_t{1} << 20;
  EXPECT_THAT(EdgeSetup::load(config).status().message(), HasSubstr("are needed"));
}

TEST(DraftLevelSetupTest, ALevelThatIsNotThereOrNotSmallerIsRefused) {
  EXPECT_THAT(EdgeSetup::load(self_drafting("61")).status().message(),
              AllOf(HasSubstr("level \"61\""), HasSubstr("100, 90, 80, 70, 60, 50, 40")));
  EXPECT_THAT(EdgeSetup::load(self_drafting("100")).status().message(),
              HasSubstr("--draft-level 100 is the full model"));
}

TEST(DraftLevelSetupTest, APackHasTheLevelsThatItWasMadeWith) {
  TestDirectory directory;
  GenerationConfig config = self_drafting("60");
  const std::string target = config.target;
  config.target = directory.path("plain.pack");
  ASSERT_TRUE(make_pack({.model = target, .out = config.target, .threads = 1}).ok());
  EXPECT_THAT(validate(config).message(), HasSubstr("outrider-edge pack --elastic"));
  config.elastic.clear();
  EXPECT_THAT(EdgeSetup::load(config).status().message(),
              AllOf(HasSubstr("--draft-level 60"), HasSubstr("has none"), HasSubstr("--elastic")));
  config.draft_level.clear();
  config.answer.wish.level = "60";
  EXPECT_THAT(EdgeSetup::load(config).status().message(), HasSubstr("--level 60"));
  EXPECT_THAT(
      make_pack({.model = target, .out = config.target, .predictor = target, .elastic = true})
          .message(),
      HasSubstr("leave one of them out"));

  config = self_drafting("");
  config.elastic.clear();
  config.target = directory.path("levels.pack");
  config.prune_below = 0.01f;
  ASSERT_TRUE(
      make_pack({.model = target, .out = config.target, .elastic = true, .threads = 1}).ok());
  EXPECT_THAT(EdgeSetup::load(config).status().message(),
              AllOf(HasSubstr("--prune"), HasSubstr("levels.pack has levels and no early exits"),
                    HasSubstr("Remedy")));
}

}  // namespace
}  // namespace outrider
