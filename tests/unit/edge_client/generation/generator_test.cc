// The generator with toy models in place of loaded ones: real threads, a resident target.
// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/decoding/verify/scheduling/engine.h"
#include "common/engine/sampling/row_digest.h"
#include "common/serving/record/record_reader.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/verifiers/resident.h"
#include "tests/sim/toy_draft.h"
#include "tests/sim/toy_model.h"
#include "tests/support/paths.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::HasSubstr;

using Ids = std::vector<TokenId>;

class Listener final : public AnswerListener {
 public:
  void on_emit(const Emit& emit) override {
    for (const Emit::Token& token : emit.tokens) text += token.text;
    if (after_emit) after_emit();
  }
  void on_say(const Say&) override {}
  void on_provisional(const Provisional& guess) override {
    if (on_guess) on_guess(guess);
  }
  void on_prefill(const PrefillProgress&) override {}

  std::string text;
  std::function<void()> after_emit;
  std::function<void(const Provisional&)> on_guess;
};

class GeneratorTest : public testing::Test {
 protected:
  GeneratorTest() {
    auto draft = std::make_unique<ToyDraft>(target_, 0.5f);
    toy_ = draft.get();
    draft_ = *LocalDraft::create(std::move(draft), {.workers = 2}, clock_);
  }

  GeneratorParts parts() {
    return {
        .tokenizer = tokenizer_, .draft = draft_.get(), .verifiers = verifier_, .clock = clock_};
  }

  AnswerRequest request(const Ids& prompt, std::int64_t tokens) const {
    AnswerRequest request{.prompt = {.ids = prompt, .stop_ids = {}}};
    request.config.speculation.strategy = Strategy::kSd;
    request.config.text.max_tokens = tokens;
    request.config.text.choice.sampling = sampling_;
    request.config.text.choice.seed = 5;
    return request;
  }

  Ids expected(const Ids& prompt, std::int64_t tokens) const {
    const auto begin = static_cast<std::ptrdiff_t>(prompt.size());
    const Ids whole = target_.decode(prompt, begin + tokens, sampling_, 5);
    return {whole.begin() + begin, whole.end()};
  }

  const Tokenizer tokenizer_ = *Tokenizer::load(source_dir() + "/models/demo-draft");
  const SamplingParams sampling_{.temperature = 0.7f};
  SystemClock clock_;
  ToyModel target_{13};
  VerifyEngine engine_{target_, SchedulerOptions{.tokenizer_hash = tokenizer_.content_hash()},
                       clock_};
  ResidentVerifier verifier_{engine_};
  ToyDraft* toy_ = nullptr;  // draft_'s
  std::unique_ptr<LocalDraft> draft_;
  Listener listener_;
  std::stop_source stop_;
};

TEST_F(GeneratorTest, EveryStrategyGivesTheTargetsText) {
  Generator generator(parts(), listener_);
  const Ids prompt{1, 2, 3};
  for (const Strategy strategy :
       {Strategy::kAr, Strategy::kSd, Strategy::kFsd, Strategy::kMirror}) {
    for (const int branches : {1, 2}) {
      listener_.text.clear();
      AnswerRequest one = request(prompt, 60);
      one.config.speculation.strategy = strategy;
      one.config.speculation.branches = branches;
      const Result<AnswerReport> report = generator.answer(std::move(one), stop_.get_token());
      ASSERT_TRUE(report.ok()) << report.status().to_string();
      EXPECT_EQ(report->record.ids, expected(prompt, 60)) << name_of(strategy);
      EXPECT_EQ(report->record.strategy, name_of(strategy));
      EXPECT_EQ(report->finish.ending, Ending::kLength);
      EXPECT_EQ(report->record.text, listener_.text);
      EXPECT_EQ(report->record.text, *tokenizer_.decode(report->record.ids));
    }
  }
}

TEST_F(GeneratorTest, ARecordIsTheSameWithAndWithoutADraft) {
  const std::unique_ptr<Recorder> recorder = *Recorder::open({.program = "test"});
  GeneratorParts all = parts();
  all.recorder = recorder.get();
  Generator generator(all, listener_);
  const Ids prompt{1, 2, 3};
  for (const Strategy strategy : {Strategy::kAr, Strategy::kMirror}) {
    AnswerRequest one = request(prompt, 60);
    one.config.speculation.strategy = strategy;
    one.record = true;
    const Result<AnswerReport> report = generator.answer(std::move(one), stop_.get_token());
    ASSERT_TRUE(report.ok()) << report.status().to_string();
    const Result<RecordedAnswer> record = check_record({.lines = report->record_lines}, "");
    ASSERT_TRUE(record.ok()) << record.status().to_string();
    EXPECT_EQ(record->terms.prompt, prompt);
    EXPECT_EQ(record->terms.seed, 5u);
    EXPECT_EQ(record->ending(), "length");
    EXPECT_EQ(record->stretches[0].ids, expected(prompt, 60));
    Ids text = prompt;
    for (const TokenId token : expected(prompt, 60)) text.push_back(token);
    std::vector<std::string> digests;
    for (std::size_t end = 16; end < text.size(); end += 16) {
      digests.push_back(digest_text(row_digest(target_.logits_after(std::span(text).first(end)))));
    }
    EXPECT_EQ(record->stretches[0].digests, digests) << name_of(strategy);
  }
  const Result<AnswerReport> plain = generator.answer(request(prompt, 5), stop_.get_token());
  EXPECT_THAT(plain->record_lines, testing::IsEmpty()) << "nobody asked";
}

TEST_F(GeneratorTest, AnAnswerHasItsEnergyAndItsBill) {
  const TestDirectory root;
  const std::string counter = root.path() + "/sys/class/powercap/intel-rapl:0";
  std::filesystem::create_directories(counter);
  const auto set = [&](const char* file, const char* value) {
    std::ofstream(counter + "/" + file) << value << "\n";
  };
  set("name", "package-0");
  set("max_energy_range_uj", "262143328850");
  set("energy_uj", "1000000");
  std::optional<DeviceEnergy> energy = DeviceEnergy::open(clock_, root.path());
  ASSERT_TRUE(energy);
  const Prices prices{.date = "2026-01-31",
                      .api = {.input = 2, .output = 10},
                      .gpu_dollars_per_hour = 3,
                      .dollars_per_kwh = 0.36};
  GeneratorParts all = parts();
  all.mode = Mode::kOffline;
  all.energy = &*energy;
  all.prices = &prices;
  listener_.after_emit = [&] { set("energy_uj", "3500000"); };
  Generator generator(all, listener_);
  const Result<AnswerReport> report = generator.answer(request({1, 2, 3}, 20), stop_.get_token());
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->record.joules, 2.5);
  ASSERT_TRUE(report->record.bill);
  EXPECT_NEAR(*report->record.bill->api, (3 * 2 + 20 * 10) / 1e6, 1e-12);
  EXPECT_EQ(report->record.bill->device, 0.0) << "its own passes are not rented";
  EXPECT_NEAR(*report->record.bill->power, 0.36 * 2.5 / 3.6e6, 1e-12);
}

// Models of one family fill their embedding tables up to different sizes, beyond the tokenizer's.
TEST_F(GeneratorTest, ADraftOfAPaddedVocabularyGivesTheTargetsText) {
  ToyModel target{tokenizer_.vocab_size() + 1};
  VerifyEngine engine{target, {.tokenizer_hash = tokenizer_.content_hash()}, clock_};
  ResidentVerifier verifier{engine};
  const Ids prompt = {1, 2, 3};
  Ids whole = target.decode(prompt, 63, sampling_, 5);
  whole.erase(whole.begin(), whole.begin() + 3);
  for (const std::int32_t padding : {-1, 3}) {
    const auto draft = *LocalDraft::create(std::make_unique<ToyDraft>(target, 0.2f, 1000, padding),
                                           {.workers = 2}, clock_);
    GeneratorParts padded = parts();
    padded.draft = draft.get();
    padded.verifiers = verifier;
    Generator generator(padded, listener_);
    for (const Strategy strategy : {Strategy::kSd, Strategy::kFsd, Strategy::kMirror}) {
      AnswerRequest one = request(prompt, 60);
      one.config.speculation.strategy = strategy;
      const Result<AnswerReport> report = generator.answer(std::move(one), {});
      ASSERT_TRUE(report.ok()) << report.status().to_string();
      EXPECT_EQ(report->record.ids, whole) << name_of(strategy) << " " << padding;
      EXPECT_EQ(report->finish.ending, Ending::kLength) << report->finish.status.to_string();
    }
  }
}

TEST_F(GeneratorTest, RoundsOfTwoBranchesAreCountedByBranch) {
  Generator generator(parts(), listener_);
  AnswerRequest one = request({1, 2, 3}, 100);
  one.config.speculation.branches = 2;
  const AnswerReport report = *generator.answer(std::move(one), {});
  const AnswerRecord record = record_of(report);
  ASSERT_FALSE(record.stats.drafted_per_branch.empty());
  ASSERT_EQ(record.stats.drafted_per_branch[0].size(), 2u);
  EXPECT_GT(record.stats.drafted_per_branch[0][1], 0u);
  EXPECT_GT(record.stats.accepted_per_branch[0][0], record.stats.accepted_per_branch[0][1]);
  EXPECT_THAT(record.speculation, HasSubstr("γ=4, 2 branches"));
}

TEST_F(GeneratorTest, LaterTurnsReuseTheCachesUntilTheyAreForgotten) {
  Generator generator(parts(), listener_);
  Ids prompt{1, 2, 3};
  const AnswerReport first = *generator.answer(request(prompt, 60), {});
  prompt.insert(prompt.end(), first.record.ids.begin(), first.record.ids.end());
  prompt.insert(prompt.end(), {4, 5});
  const std::size_t rows_before = toy_->rows_run();
  const AnswerReport second = *generator.answer(request(prompt, 4), {});
  EXPECT_EQ(second.record.ids, expected(prompt, 4));
  EXPECT_GE(second.record.stats.cached_tokens.value_or(0), 50u);
  EXPECT_LT(toy_->rows_run() - rows_before, 25u);
  draft_->forget();
  EXPECT_EQ(generator.answer(request(prompt, 4), {})->record.ids, expected(prompt, 4));
  EXPECT_GT(toy_->rows_run() - rows_before, 60u) << "the prompt was read again";
}

TEST_F(GeneratorTest, AStopEndsTheAnswerThatItWasAskedOfAndNoOther) {
  Generator generator(parts(), listener_);
  stop_.request_stop();
  const AnswerReport stopped = *generator.answer(request({1, 2, 3}, 100), stop_.get_token());
  EXPECT_EQ(stopped.finish.ending, Ending::kCancelled);
  EXPECT_LT(stopped.record.ids.size(), 100u);
  EXPECT_EQ(generator.answer(request({1, 2, 3}, 20), {})->finish.ending, Ending::kLength);
}

// The target computes nothing before the deadline: all that is there by then is the draft's.
TEST_F(GeneratorTest, WhatIsUnverifiedByTheDeadlineIsConfirmedOrCorrectedByTheTarget) {
  const Ids prompt{1, 2, 3};
  for (const float strays : {0.0f, 30.0f}) {
    const auto draft = *LocalDraft::create(std::make_unique<ToyDraft>(target_, strays), {}, clock_);
    GeneratorParts own = parts();
    own.draft = draft.get();
    Generator generator(own, listener_);
    std::string guessed;
    listener_.on_guess = [&](const Provisional& guess) {
      EXPECT_TRUE(guess.by_deadline);
      guessed += guess.text;
      target_.hold_passes(false);
    };
    for (const Strategy strategy : {Strategy::kAr, Strategy::kMirror}) {
      guessed.clear();
      AnswerRequest one = request(prompt, 20);
      one.config.speculation.strategy = strategy;
      one.config.wish.slo = {.time_ms = 300, .unverified = true};
      target_.hold_passes(true);
      const Result<AnswerReport> report = generator.answer(std::move(one), {});
      ASSERT_TRUE(report.ok()) << report.status().to_string();
      EXPECT_EQ(report->record.ids, expected(prompt, 20)) << "the text is the target's";
      const UnverifiedRecord& given = report->record.unverified.value();
      EXPECT_EQ(given.verified_tokens, 0u);
      EXPECT_EQ(given.text, guessed);
      EXPECT_FALSE(guessed.empty());
      EXPECT_GE(given.after_ms.value_or(0), 290);
      const bool starts_so = report->record.text.starts_with(guessed);
      EXPECT_EQ(given.outcome,
                starts_so ? UnverifiedOutcome::kConfirmed : UnverifiedOutcome::kCorrected);
      EXPECT_EQ(starts_so, strays == 0) << "a draft of the target's own is right";
    }
  }
}

TEST_F(GeneratorTest, AnAnswerInTimeHasNothingUnverifiedAndACutOneIsNeitherRightNorWrong) {
  Generator generator(parts(), listener_);
  AnswerRequest one = request({1, 2, 3}, 20);
  one.config.wish.slo = {.time_ms = 1e8, .unverified = true};
  const AnswerReport whole = *generator.answer(AnswerRequest(one), {});
  EXPECT_EQ(whole.record.unverified.value().outcome, UnverifiedOutcome::kInTime);
  EXPECT_EQ(whole.record.unverified->after_ms, std::nullopt);
  stop_.request_stop();
  const AnswerReport cut = *generator.answer(AnswerRequest(one), stop_.get_token());
  EXPECT_EQ(cut.record.unverified.value().outcome, std::nullopt);
  GeneratorParts alone = parts();
  alone.draft = nullptr;
  Generator plain(alone, listener_);
  EXPECT_THAT(plain.answer(std::move(one), {}).status().message(),
              HasSubstr("nothing drafts here"));
}

TEST_F(GeneratorTest, StopStringsEndTheText) {
  Generator generator(parts(), listener_);
  const Ids prompt{1, 2, 3};
  const std::string whole = *tokenizer_.decode(expected(prompt, 40));
  AnswerRequest one = request(prompt, 40);
  one.config.text.stop = {whole.substr(10, 3)};
  const AnswerReport report = *generator.answer(std::move(one), {});
  EXPECT_EQ(report.finish.ending, Ending::kStopString);
  EXPECT_EQ(report.record.text, whole.substr(0, whole.find(whole.substr(10, 3))));
}

TEST_F(GeneratorTest, APromptThatCannotBeAnsweredIsRefused) {
  Generator generator(parts(), listener_);
  EXPECT_THAT(generator.answer(request({}, 4), {}).status().message(),
              HasSubstr("the prompt is empty"));
  AnswerRequest one = request({1, 2, 3}, 4);
  one.config.context = 3;
  EXPECT_THAT(generator.answer(std::move(one), {}).status().message(),
              HasSubstr("the prompt has 3 tokens, but the context holds 3"));
  AnswerRequest other = request({1, 2, 3}, 4);
  other.config.text.stop = {""};
  EXPECT_EQ(generator.answer(std::move(other), {}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(GeneratorTest, WithoutADraftTheTargetDecodesAlone) {
  GeneratorParts alone = parts();
  alone.draft = nullptr;
  Generator generator(alone, listener_);
  AnswerRequest one = request({1, 2, 3}, 20);
  one.config.speculation.strategy.reset();
  const AnswerReport report = *generator.answer(std::move(one), {});
  EXPECT_EQ(report.record.ids, expected({1, 2, 3}, 20));
  EXPECT_EQ(report.record.strategy, "ar");
  EXPECT_EQ(report.record.speculation, "OFF because nothing drafts on this device");
}

TEST(EdgeSetupTest, PutsAnEdgeTogetherFromDirectories) {
  GenerationConfig config;
  config.model = source_dir() + "/models/demo-draft";
  config.target = source_dir() + "/models/demo-target";
  config.loading.threads = 1;
  config.answer.text.max_tokens = 12;
  const Result<std::unique_ptr<EdgeSetup>> setup = EdgeSetup::load(config);
  ASSERT_TRUE(setup.ok()) << setup.status().to_string();
  Listener listener;
  Generator generator((*setup)->parts(), listener);
  const EncodedPrompt prompt =
      *encode_prompt((*setup)->tokenizer(), *(*setup)->chat().now(), "Find the red cup.", "");
  const AnswerReport drafted = *generator.answer({.prompt = prompt, .config = config.answer}, {});
  config.answer.speculation.strategy = Strategy::kAr;
  const AnswerReport plain = *generator.answer({.prompt = prompt, .config = config.answer}, {});
  EXPECT_FALSE(plain.record.ids.empty());
  EXPECT_EQ(drafted.record.ids, plain.record.ids);
  EXPECT_EQ(drafted.record.traffic, std::nullopt);
}

TEST(EdgeSetupTest, NamesWhatCannotBeLoaded) {
  GenerationConfig config;
  config.model = source_dir() + "/models/none";
  config.tokenizer = source_dir() + "/models/demo-draft";
  EXPECT_THAT(EdgeSetup::load(config).status().message(), HasSubstr("models/none"));
}

}  // namespace
}  // namespace outrider
