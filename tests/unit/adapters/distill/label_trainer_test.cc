// Drafts trained on a teacher's labels, on models of a few thousand weights.
// SPDX-License-Identifier: Apache-2.0
#include "adapters/distill/label_trainer.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "adapters/labels/labeller.h"
#include "adapters/shape/compose.h"
#include "adapters/train/model_io.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

std::vector<float> cpu_logits(const std::shared_ptr<const ModelFiles>& files,
                              const std::vector<TokenId>& tokens) {
  const auto model = *make_cpu_model(files, {.dtype = "f32", .threads = 1, .progress = {}});
  const auto cache = *model->new_cache(static_cast<std::int32_t>(tokens.size()));
  std::vector<Row> rows;
  Slot slot = kRootSlot;
  for (const TokenId token : tokens) {
    slot = *cache->slots().append(slot);
    rows.push_back({cache.get(), slot, token, true});
  }
  PassOutput out;
  EXPECT_TRUE(model->forward(rows, out).ok());
  return out.logits;
}

at::Tensor trained_logits(const Llama& model, const std::vector<TokenId>& tokens) {
  at::NoGradGuard no_grad;
  const at::Tensor ids =
      at::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end()), at::kLong).view({1, -1});
  return model.logits(model.hidden(ids));
}

class LabelTrainerTest : public testing::Test {
 protected:
  LabelTrainerTest() {
    at::set_num_threads(1);
    SplitMix64 random(4);
    for (int i = 0; i < 40; ++i) {
      Document document;
      for (int j = 0; j < 20; ++j) document.tokens.push_back(random.below(101));
      document.learnt.assign(20, 1);
      documents_.push_back(std::move(document));
    }
    for (TokenId token = 0; token < 101; token += 2) listed_.push_back(token);
    const auto model = *make_cpu_model(files_, {.dtype = "f32", .threads = 1, .progress = {}});
    EXPECT_TRUE(
        label_documents(*model, documents_, "", {.out = labels_, .top_k = 20}, [](std::int64_t) {
          return Status();
        }).ok());
  }

  Llama draft() const {
    Llama draft = *load_model(target_, at::kFloat, {.layers = {1}, .head_tokens = listed_});
    draft.freeze_embedding();
    return draft;
  }
  LabelTrainOptions options(const std::string& run, std::int64_t steps) const {
    LabelTrainOptions options;
    options.out = directory_.path(run);
    options.tokens = 100;
    options.frozen_embedding = true;
    options.evaluate_every = options.checkpoint_every = 4;
    options.optimizer = {
        .learning_rate = 3e-3, .warmup_steps = 2, .total_steps = steps, .weight_decay = 0};
    return options;
  }
  std::vector<StepMetrics> train(Llama& draft, const LabelTrainOptions& options) {
    const auto set = LabelSet::load(labels_, listed_);
    EXPECT_TRUE(set.ok()) << set.status().to_string();
    const Status status = train_on_labels(draft, *set, options);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return *read_metrics(options.out + "/metrics.jsonl");
  }

  TestDirectory directory_;
  std::shared_ptr<const ModelFiles> files_ = small_model(directory_.path(), "llama", DType::kF32);
  const std::string target_ = directory_.path("llamaF32"), labels_ = directory_.path("labels");
  std::vector<TokenId> listed_;
  std::vector<Document> documents_;
};

TEST_F(LabelTrainerTest, EveryFamilyComputesWhatItIsServedWith) {
  const std::vector<TokenId> tokens = some_tokens(60);
  for (const std::string& architecture : kSmallLlamas) {
    const auto files = small_model(directory_.path(), architecture, DType::kF32);
    const Llama model = *load_model(directory_.path(architecture + "F32"), at::kFloat);
    const at::Tensor logits = trained_logits(model, tokens).contiguous();
    const std::vector<float> expected = cpu_logits(files, tokens);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(logits.const_data_ptr<float>()[i], expected[i],
                  1e-4 * std::max(1.0f, std::fabs(expected[i])))
          << architecture;
    }
    // The model saved under another name is the same one.
    const std::string again = directory_.path("again-" + architecture);
    ASSERT_TRUE(save_tensors(again, model.config(), model.state(), DType::kF32).ok());
    EXPECT_EQ((*load_model_files(again, {}))->fingerprint, files->fingerprint) << architecture;
  }
}

TEST_F(LabelTrainerTest, ADraftOfItsTargetsLayersComesNearerToItsTarget) {
  Llama model = draft();
  const std::vector<StepMetrics> steps = train(model, options("run", 60));
  const double first = steps.at(3).held_out.at("held out").loss;
  EXPECT_LT(steps.back().held_out.at("held out").loss, 0.8 * first);
}

TEST_F(LabelTrainerTest, ABrokenRunGoesOnBitForBit) {
  Llama whole = draft(), part = draft(), resumed = draft();
  const std::vector<StepMetrics> straight = train(whole, options("straight", 12));
  LabelTrainOptions broken = options("broken", 12);
  broken.stop_after = 6;
  train(part, broken);
  broken.stop_after = 0;
  broken.resume = true;
  const std::vector<StepMetrics> metrics = train(resumed, broken);
  ASSERT_EQ(metrics.size(), straight.size());
  for (std::size_t i = 0; i < metrics.size(); ++i) EXPECT_EQ(metrics[i].loss, straight[i].loss);
  EXPECT_TRUE(
      at::equal(trained_logits(whole, some_tokens(9)), trained_logits(resumed, some_tokens(9))));
}

TEST_F(LabelTrainerTest, ARunEndsWhereNothingIsGained) {
  LabelTrainOptions lazy = options("lazy", 1000);
  lazy.optimizer.learning_rate = 1e-12;  // never better than the start by more than rounding
  lazy.optimizer.warmup_steps = 1000;
  lazy.patience = 2;
  Llama model = draft();
  EXPECT_LT(train(model, lazy).size(), 1000u);
}

TEST_F(LabelTrainerTest, TheComposedDraftSaysWhatTheTrainedOneDid) {
  LabelTrainOptions once = options("run", 4);
  once.patience = 0;
  Llama model = draft();
  train(model, once);
  const std::string out = directory_.path("draft");
  const Status composed = compose_draft(target_, once.out, out);
  ASSERT_TRUE(composed.ok()) << composed.to_string();
  const auto files = *load_model_files(out, {});
  EXPECT_EQ(files->config.num_layers, 1);
  const std::vector<TokenId> tokens = some_tokens(30);
  const std::vector<float> logits = cpu_logits(files, tokens);
  const at::Tensor expected = trained_logits(model, tokens).contiguous();
  double error = 0, scale = 0;
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    for (std::size_t i = 0; i < listed_.size(); ++i) {
      const double wanted = expected.const_data_ptr<float>()[row * listed_.size() + i];
      error += std::pow(logits[row * 101 + static_cast<std::size_t>(listed_[i])] - wanted, 2);
      scale += wanted * wanted;
    }
    EXPECT_EQ(logits[row * 101 + 1], -INFINITY);
  }
  EXPECT_LT(std::sqrt(error / scale), 0.02);  // its weights are bf16
  const auto other = small_model(directory_.path(), "qwen2", DType::kF32);
  EXPECT_EQ(compose_draft(directory_.path("qwen2F32"), once.out, out).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(LabelTrainerTest, RowsWhoseTokensAreNotListedTeachNothing) {
  const LabelSet all = *LabelSet::load(labels_, {}), few = *LabelSet::load(labels_, {7});
  const LabelBatch whole = all.batch({0, 1}), part = few.batch({0, 1});
  EXPECT_EQ(whole.places.numel(), 38);
  EXPECT_EQ(whole.places.const_data_ptr<std::int64_t>()[19], 20);  // the second document's first
  EXPECT_EQ(whole.starts.const_data_ptr<std::int64_t>()[20], 20);
  EXPECT_NEAR(whole.targets.probabilities.sum().item<double>(), 38, 1e-4);
  const at::Tensor sums = part.targets.probabilities.sum(1);
  for (std::int64_t row = 0; row < sums.numel(); ++row) {
    const double sum = sums.const_data_ptr<float>()[row];
    EXPECT_TRUE(sum == 0 || std::fabs(sum - 1) < 1e-5) << sum;
  }
  EXPECT_EQ(part.targets.columns.max().item<std::int64_t>(), 0);
}

TEST_F(LabelTrainerTest, WhatDoesNotFitIsRefused) {
  Llama model = draft();
  LabelTrainOptions long_steps = options("run", 4);
  long_steps.tokens = 4096;
  const LabelSet set = *LabelSet::load(labels_, listed_);
  EXPECT_THAT(train_on_labels(model, set, long_steps).message(), HasSubstr("context of 512"));
  EXPECT_EQ(load_model(target_, at::kFloat, {.layers = {2}, .head_tokens = {}}).status().code(),
            StatusCode::kInvalidArgument);
  directory_.write("tokens.json", "[3, 2]");
  EXPECT_THAT(read_head_tokens(directory_.path("tokens.json")).status().message(),
              HasSubstr("ascending"));
}

}  // namespace
}  // namespace outrider
