// Levels of the demo target that answer in turn, in memory and from a pack.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "edge_client/flash/make_pack.h"
#include "edge_client/generation/edge_setup.h"
#include "tests/support/paths.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

#if defined(OUTRIDER_SANITIZED)
constexpr int kSwitches = 100;
#else
constexpr int kSwitches = 1000;
#endif

class QuietListener final : public AnswerListener {
 public:
  void on_emit(const Emit&) override {}
  void on_say(const Say&) override {}
  void on_prefill(const PrefillProgress&) override {}
};

class ElasticTargetTest : public testing::Test {
 protected:
  void load(bool from_pack, const std::string& level = "") {
    GenerationConfig config;
    config.target = source_dir() + "/models/demo-target";
    config.draft_source = DraftSource::kNone;
    if (from_pack) {
      const std::string pack = directory_.path("demo-target.pack");
      ASSERT_TRUE(
          make_pack({.model = config.target, .out = pack, .elastic = true, .threads = 1}).ok());
      config.target = pack;
    } else {
      config.elastic = config.target + "/elastic.json";
    }
    config.loading.threads = 1;
    config.state_dir = "none";
    config.answer.wish.level = level;
    config.answer.text.max_tokens = 6;
    auto setup = EdgeSetup::load(config);
    ASSERT_TRUE(setup.ok()) << setup.status().to_string();
    setup_ = *std::move(setup);
    generator_ = std::make_unique<Generator>(setup_->parts(), listener_);
    answer_ = config.answer;
    prompt_ = *encode_prompt(setup_->tokenizer(), *setup_->chat().now(), "Find it.", "");
  }

  Result<AnswerReport> answer(const std::string& level) {
    AnswerRequest request{.prompt = prompt_, .config = answer_};
    request.config.wish.level = level;
    return generator_->answer(std::move(request), {});
  }
  std::vector<TokenId> ids(const std::string& level) {
    const Result<AnswerReport> report = answer(level);
    EXPECT_TRUE(report.ok()) << report.status().to_string();
    return report.ok() ? report->record.ids : std::vector<TokenId>();
  }

  // An answer each of random levels and courses; every one is what that level says alone.
  void expect_replays(int switches) {
    const std::vector<std::string> names = {"100", "70", "40", "100,2:40", "40,3:100"};
    std::vector<std::vector<TokenId>> alone;
    for (const std::string& name : names) alone.push_back(ids(name));
    std::mt19937 random(5);
    for (int i = 0; i < switches; ++i) {
      const std::size_t next = random() % names.size();
      ASSERT_EQ(ids(names[next]), alone[next]) << "answer " << i << ", level " << names[next];
    }
  }

  TestDirectory directory_;
  QuietListener listener_;
  std::unique_ptr<EdgeSetup> setup_;
  std::unique_ptr<Generator> generator_;
  AnswerConfig answer_;
  EncodedPrompt prompt_;
};

TEST_F(ElasticTargetTest, AThousandSwitchesReplayInMemory) {
  load(false);
  expect_replays(kSwitches);
}

TEST_F(ElasticTargetTest, SwitchesReplayFromAPackWithTheSameTexts) {
  load(false);
  std::vector<std::vector<TokenId>> in_memory;
  for (const ElasticLevel& level : setup_->parts().elastic->levels()) {
    in_memory.push_back(ids(level.name));
  }
  generator_.reset();
  load(true);
  std::size_t at = 0;
  for (const ElasticLevel& level : setup_->parts().elastic->levels()) {
    EXPECT_EQ(ids(level.name), in_memory[at++]) << level.name;
  }
  expect_replays(kSwitches / 5);
}

TEST_F(ElasticTargetTest, ANamedLevelOfAPackIsTheLargestThere) {
  load(true, "60");
  const ElasticTarget& target = *setup_->parts().elastic;
  EXPECT_EQ(target.name(), "demo-target");
  EXPECT_EQ(target.levels().front().name, "60");
  EXPECT_FALSE(ids("60").empty());
  EXPECT_FALSE(ids("40").empty());
  EXPECT_THAT(answer("100").status().message(), testing::HasSubstr("there are 60, 50, 40"));
}

}  // namespace
}  // namespace outrider
