// Training of exits on a model of a few thousand weights. SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/exit_trainer.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "adapters/data/random.h"
#include "adapters/exits/measure.h"
#include "adapters/train/run_files.h"
#include "common/decoding/exits/adapter_heads.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

class ExitTrainerTest : public testing::Test {
 protected:
  ExitTrainerTest() {
    at::set_num_threads(1);
    options_.layers = {1};
    options_.bottleneck = 8;
    options_.rows = 60;
    options_.evaluate_every = 20;
    options_.optimizer = {
        .learning_rate = 2e-2, .warmup_steps = 3, .total_steps = 40, .weight_decay = 0};
    SplitMix64 random(4);
    source_.documents.resize(12);
    for (Document& document : source_.documents) {
      for (int i = 0; i < 20; ++i) document.tokens.push_back(random.below(101));
      document.learnt.assign(20, 1);
    }
  }

  Result<ExitAdapters> train(const std::string& run) {
    options_.out = directory_.path() + "/" + run;
    return train_exits(*model_, *files_, at::kFloat, {source_}, {{"held", source_.documents}},
                       options_);
  }
  std::vector<StepMetrics> metrics(const std::string& run) {
    return *read_metrics(directory_.path() + "/" + run + "/metrics.jsonl");
  }

  TestDirectory directory_;
  std::shared_ptr<const ModelFiles> files_ = small_model(directory_.path(), "llama", DType::kF32);
  std::unique_ptr<Model> model_ =
      *make_cpu_model(files_, {.dtype = "f32", .threads = 1, .progress = {}});
  Source source_;
  ExitTrainOptions options_;
};

TEST_F(ExitTrainerTest, ExitsLearnToAgreeWithTheTarget) {
  const auto adapters = train("run");
  ASSERT_TRUE(adapters.ok()) << adapters.status().to_string();
  const std::vector<StepMetrics> steps = metrics("run");
  ASSERT_EQ(steps.size(), 40u);
  EXPECT_LT(steps.back().loss, 0.8 * steps.front().loss);
  EXPECT_EQ(steps.back().held_out.count("layer 1, held"), 1u);
  EXPECT_TRUE(check_target(*adapters, model_->info()).ok());
  ASSERT_EQ(adapters->exits.size(), 1u);
  EXPECT_EQ(adapters->exits[0].bottleneck, 8);
}

TEST_F(ExitTrainerTest, AnUntrainedExitIsTheTargetsHeadOnItsHiddenState) {
  const ExitModule module(1, 72, 8, 1);
  const at::Tensor hidden = at::ones({2, 72}) * 0.3;
  const FrozenHead head = frozen_head(*files_, at::kFloat);
  const at::Tensor plain = at::linear(
      hidden * at::rsqrt(hidden.square().mean(-1, true) + head.epsilon) * head.final_norm,
      head.head);
  EXPECT_TRUE(at::allclose(module.logits(hidden, head), plain, 1e-4, 1e-4));
}

// Training and serving each implement the formula.
TEST_F(ExitTrainerTest, TheTrainedModuleAndTheServedExitAgree) {
  const auto adapters = train("run");
  ASSERT_TRUE(adapters.ok()) << adapters.status().to_string();
  const auto heads = *make_adapter_heads(*adapters, *files_);
  ExitModule module(1, 72, 8, 1);
  const ExitAdapter& adapter = adapters->exits[0];
  const auto widened = [](const std::vector<std::uint16_t>& bits, std::int64_t rows) {
    at::Tensor tensor =
        at::empty({rows, static_cast<std::int64_t>(bits.size()) / rows}, at::kFloat);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      tensor.data_ptr<float>()[i] = from_bf16(bits[i]);
    }
    return tensor;
  };
  std::vector<float> norm = adapter.norm;
  module.load({{"exits.1.norm", at::from_blob(norm.data(), {72}, at::kFloat).clone()},
               {"exits.1.down", widened(adapter.down, 8)},
               {"exits.1.up", widened(adapter.up, 72)}});
  std::vector<float> hidden(3 * 72);
  for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = static_cast<float>(i % 17) / 9 - 1;
  std::vector<float> served(3 * 101);
  heads->compute(0, {.layer = 1, .first = 0, .count = 3, .width = 72, .values = hidden.data()},
                 served);
  const at::Tensor trained = module.logits(at::from_blob(hidden.data(), {3, 72}, at::kFloat),
                                           frozen_head(*files_, at::kFloat));
  const at::Tensor difference = at::from_blob(served.data(), {3, 101}, at::kFloat) - trained;
  // The served head is int8: errors are of the size of the row's largest logits, not of each.
  EXPECT_LE(difference.abs().max().item<float>(), 0.05f * trained.abs().max().item<float>());
}

TEST_F(ExitTrainerTest, AResumedRunIsTheUninterruptedOne) {
  ASSERT_TRUE(train("whole").ok());
  options_.stop_after = 15;
  ASSERT_TRUE(train("parts").ok());
  EXPECT_EQ(train("parts").status().code(), StatusCode::kInvalidArgument);  // without --resume
  options_.stop_after = 0;
  options_.resume = true;
  const auto resumed = train("parts");
  ASSERT_TRUE(resumed.ok()) << resumed.status().to_string();
  const std::vector<StepMetrics> whole = metrics("whole"), parts = metrics("parts");
  ASSERT_EQ(whole.size(), parts.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i].loss, parts[i].loss) << i;
}

TEST_F(ExitTrainerTest, TrainedExitsAreMeasuredCalibratedAndSaved) {
  auto adapters = train("run");
  ASSERT_TRUE(adapters.ok()) << adapters.status().to_string();
  std::vector<ExitText> texts(1);
  texts[0].name = "counting";
  for (std::size_t i = 0; i < source_.documents.size(); ++i) {
    (i % 2 == 0 ? texts[0].fit : texts[0].measure).push_back(source_.documents[i].tokens);
  }
  std::int64_t done = 0;
  const auto report =
      measure_exits(*adapters, *model_, *files_, *model_, texts, {.gamma = 2, .max_tokens = 12},
                    [&](std::int64_t now) { done = now; });
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(done, 36);
  ASSERT_EQ(report->results.size(), 2u);
  EXPECT_EQ(report->results[0].passes, 24);  // a draft that is the target: 3 tokens a pass
  EXPECT_DOUBLE_EQ(report->results[1].tokens_per_pass, 3);
  EXPECT_EQ(adapters->exits[0].calibration.size(), 2u);
  EXPECT_EQ(adapters->exits[0].measured.size(), 2u);
  // Committed exits measure the same again, on prompts that were not used for fitting.
  const auto again = measure_committed(*adapters, *model_, *files_, *model_, texts,
                                       {.gamma = 2, .max_tokens = 12}, [](std::int64_t) {});
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  ASSERT_EQ(again->results.size(), 2u);
  EXPECT_EQ(again->results[0].passes, report->results[0].passes);
  EXPECT_DOUBLE_EQ(again->results[0].exits[0].named, report->results[0].exits[0].named);
  EXPECT_DOUBLE_EQ(again->results[0].exits[0].error, report->results[0].exits[0].error);
  for (const TextResult& result : again->results) {
    for (const ExitResult& exit : result.exits) {
      EXPECT_NEAR(exit.named + exit.took_fewer + exit.took_more + exit.other_token, 1, 1e-9);
      EXPECT_GE(exit.tokens, result.passes);
      EXPECT_GE(exit.token_agreement,
                exit.named * static_cast<double>(result.passes) / static_cast<double>(exit.tokens));
      EXPECT_LE(exit.token_agreement, 1);
      // The draft is the target, so an exit errs by taking fewer tokens, or by the token after all
      // of them.
      EXPECT_EQ(exit.took_more, 0);
    }
  }
  adapters->exits[0].calibration.clear();
  EXPECT_EQ(measure_committed(*adapters, *model_, *files_, *model_, texts, {}, [](std::int64_t) {})
                .status()
                .code(),
            StatusCode::kFailedPrecondition);
  ASSERT_TRUE(save_adapters(directory_.path() + "/saved", *adapters).ok());
  const auto loaded = load_adapters(directory_.path() + "/saved");
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_EQ(loaded->exits[0].calibration, adapters->exits[0].calibration);
  for (const std::string& svg : {reliability_svg(*report), depth_svg(*report)}) {
    EXPECT_NE(svg.find("<polyline"), std::string::npos);
    EXPECT_EQ(svg.find("nan,"), std::string::npos);
  }
  EXPECT_NE(report_json(*report).find("\"three_quarters_together\""), std::string::npos);
}

}  // namespace
}  // namespace outrider
