// Answers that levels of the demo target share.
// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/level_switch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "edge_client/generation/edge_setup.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kAnswer = 24;  // tokens

class SwitchListener final : public AnswerListener {
 public:
  void on_emit(const Emit&) override {}
  void on_say(const Say& say) override { lines += say.line + "\n"; }
  void on_prefill(const PrefillProgress&) override {}

  std::string lines;
};

class LevelSwitchTest : public testing::Test {
 protected:
  void SetUp() override {
    GenerationConfig config;
    config.target = source_dir() + "/models/demo-target";
    config.elastic = config.target + "/elastic.json";
    choose_draft(config);
    config.loading.threads = 1;
    config.state_dir = "none";
    config.answer.text.max_tokens = kAnswer;
    config.answer.text.ignore_eos = true;
    answer_ = config.answer;
    auto setup = EdgeSetup::load(config);
    ASSERT_TRUE(setup.ok()) << setup.status().to_string();
    setup_ = *std::move(setup);
    generator_ = std::make_unique<Generator>(setup_->parts(), listener_);
    const char* scene = "In view: silver bottle 20 degrees left at 2.1 m. Task: find it.";
    prompt_ = *encode_prompt(setup_->tokenizer(), *setup_->chat().now(), scene, "");
  }

  virtual void choose_draft(GenerationConfig& config) { config.draft_level = "50"; }

  Result<AnswerReport> answer(const std::string& level, const Slo& slo = {}) {
    AnswerRequest request{.prompt = prompt_, .config = answer_};
    request.config.wish = {.level = level, .slo = slo};
    return generator_->answer(std::move(request), {});
  }
  AnswerRecord answered(const std::string& level, const Slo& slo = {}) {
    const Result<AnswerReport> report = answer(level, slo);
    EXPECT_TRUE(report.ok()) << report.status().to_string();
    return report.ok() ? report->record : AnswerRecord();
  }
  // The tokens of two answers, one after the other: the second has the first's text in its prompt.
  std::vector<TokenId> in_two_answers(const std::string& first, std::int64_t tokens,
                                      const std::string& second) {
    const EncodedPrompt whole = prompt_;
    const std::int64_t most = std::exchange(answer_.text.max_tokens, tokens);
    std::vector<TokenId> ids = answered(first).ids;
    prompt_.ids.insert(prompt_.ids.end(), ids.begin(), ids.end());
    answer_.text.max_tokens = most - tokens;
    const std::vector<TokenId> rest = answered(second).ids;
    ids.insert(ids.end(), rest.begin(), rest.end());
    prompt_ = whole;
    answer_.text.max_tokens = most;
    return ids;
  }

  SwitchListener listener_;
  std::unique_ptr<EdgeSetup> setup_;
  std::unique_ptr<Generator> generator_;
  EncodedPrompt prompt_;
  AnswerConfig answer_;
};

TEST_F(LevelSwitchTest, FromItsTokenOnTheTextIsTheSecondLevelsWhateverWasDrafted) {
  for (const float temperature : {0.0f, 0.8f}) {
    answer_.text.choice.sampling.temperature = temperature;
    for (const std::int64_t at : {1, 17}) {
      answer_.speculation.strategy = Strategy::kAr;
      const std::vector<TokenId> expected = in_two_answers("100", at, "40");
      for (const Strategy strategy : {Strategy::kAr, Strategy::kSd, Strategy::kMirror}) {
        answer_.speculation.strategy = strategy;
        const std::string course = "100," + std::to_string(at) + ":40";
        const AnswerRecord switched = answered(course);
        EXPECT_EQ(switched.ids, expected) << course << ", " << name_of(strategy);
        EXPECT_EQ(switched.level->course, course);
        EXPECT_EQ(switched.level->name, "100");
        EXPECT_GT(switched.level->divergence, 0.1) << "that of the last level";
      }
    }
  }
  EXPECT_THAT(listener_.lines, HasSubstr("demo-target@40, no longer demo-target"));
}

// No row sees another level's keys and values, in whichever order they answer.
TEST_F(LevelSwitchTest, AnswersAfterASwitchAreTheirOwn) {
  const std::vector<TokenId> full = answered("100").ids, small = answered("40").ids;
  EXPECT_NE(full, small);
  for (const char* course : {"100,5:40", "40,5:100", "60,9:40", "100,3:40,9:60,11:50"}) {
    answered(course);
    EXPECT_EQ(answered("100").ids, full) << "after " << course;
    answered(course);
    EXPECT_EQ(answered("40").ids, small) << "after " << course;
  }
}

TEST_F(LevelSwitchTest, ASwitchBehindTheEndIsNone) {
  for (const char* course : {"100,500:40", "100,9223372036854775807:40"}) {
    const AnswerRecord record = answered(course);
    EXPECT_EQ(record.ids, answered("100").ids) << course;
    EXPECT_EQ(record.level->course, "100") << course;
  }
}

// Look-up drafts well in a loop: verdicts bring many tokens of it.
class LoopSwitchTest : public LevelSwitchTest {
 protected:
  void choose_draft(GenerationConfig& config) override {
    config.draft_source = DraftSource::kLookup;
  }
};

TEST_F(LoopSwitchTest, ALoopGoesOnWithTheNextLargerLevelWhateverWasDrafted) {
  answer_.text.max_tokens = 60;
  const Slo soon{.time_ms = 0.001, .min_quality = 0.2};
  answer_.speculation.strategy = Strategy::kAr;
  const std::vector<TokenId> expected = in_two_answers("40", 20, "50");
  for (const Strategy strategy : {Strategy::kAr, Strategy::kSd}) {
    answer_.speculation.strategy = strategy;
    const AnswerRecord left = answered("", soon);
    EXPECT_EQ(left.level->course, "40,20:50") << name_of(strategy);
    EXPECT_EQ(left.ids, expected) << name_of(strategy);
    EXPECT_EQ(left.stats.num_accepted_tokens > 0, strategy == Strategy::kSd);
    EXPECT_EQ(answered("40,20:50").ids, expected) << "named, it is said again";
    const AnswerRecord named = answered("40", soon);
    EXPECT_EQ(named.level->course, "40") << "a named level stays";
    EXPECT_NE(named.ids, expected);
  }
}

TEST_F(LevelSwitchTest, WhatIsNoCourseIsRefused) {
  for (const char* level : {"100,40", "100,0:40", "100,-3:40", "100,x:40", "100,3:", "100,3:4:5"}) {
    EXPECT_FALSE(answer(level).ok()) << level;
  }
  EXPECT_THAT(answer("100,3:41").status().message(), HasSubstr("no level \"41\""));
  EXPECT_THAT(answer("100,3").status().message(), HasSubstr("100,12:60"));
}

}  // namespace
}  // namespace outrider
