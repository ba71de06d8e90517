// Exits trained on cached labels. SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/label_exit_trainer.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/data/random.h"
#include "adapters/labels/label_files.h"
#include "adapters/labels/labeller.h"
#include "adapters/train/run_files.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class LabelExitTest : public testing::Test {
 protected:
  LabelExitTest() {
    at::set_num_threads(1);
    options_.layers = {1};
    options_.bottleneck = 8;
    options_.rows = 30;
    options_.evaluate_every = 20;
    options_.optimizer = {
        .learning_rate = 2e-2, .warmup_steps = 3, .total_steps = 40, .weight_decay = 0};
    SplitMix64 random(4);
    std::vector<Document> documents(12);
    for (Document& document : documents) {
      for (int i = 0; i < 20; ++i) document.tokens.push_back(random.below(101));
      document.learnt.assign(20, 1);
    }
    const auto model = *make_cpu_model(files_, {.dtype = "f32", .threads = 1, .progress = {}});
    EXPECT_TRUE(label_documents(*model, documents, "",
                                {.out = labels_, .top_k = 20, .layers = {1}, .shard_documents = 3},
                                [](std::int64_t) { return Status(); })
                    .ok());
    info_ = model->info();
  }

  Result<ExitAdapters> train(const std::string& run) {
    options_.out = directory_.path(run);
    return train_exits_on_labels(labels_, *files_, at::kFloat, shortlist_, options_);
  }
  std::vector<StepMetrics> metrics(const std::string& run) {
    return *read_metrics(directory_.path(run) + "/metrics.jsonl");
  }

  TestDirectory directory_;
  std::shared_ptr<const ModelFiles> files_ = small_model(directory_.path(), "llama", DType::kF32);
  const std::string labels_ = directory_.path("labels");
  std::vector<TokenId> shortlist_;
  ModelInfo info_;
  ExitTrainOptions options_;
};

TEST_F(LabelExitTest, ExitsLearnToAgreeOnAShortlist) {
  const Shortlist list = *choose_shortlist(labels_, {100}, 60);
  EXPECT_EQ(list.tokens.size(), 60u);
  EXPECT_THAT(list.tokens, Contains(100));  // ends an answer, however rare
  EXPECT_GT(list.covered, 0.6);
  EXPECT_TRUE(std::is_sorted(list.tokens.begin(), list.tokens.end()));
  shortlist_ = list.tokens;
  const auto adapters = train("run");
  ASSERT_TRUE(adapters.ok()) << adapters.status().to_string();
  const std::vector<StepMetrics> steps = metrics("run");
  ASSERT_EQ(steps.size(), 40u);
  EXPECT_LT(steps.back().loss, 0.8 * steps.front().loss);
  EXPECT_EQ(steps.back().held_out.count("layer 1"), 1u);
  EXPECT_TRUE(check_target(*adapters, info_).ok());
  EXPECT_EQ(adapters->shortlist, list.tokens);
  EXPECT_GT(label_exit_cost(labels_, options_, 60)->multiply_adds, 0);
}

// LEVER's predictor.
TEST_F(LabelExitTest, AHeadOfItsOwnLearnsToo) {
  options_.own_head = true;
  options_.candidate_weight = 1;
  options_.greedy_weight = 0;
  options_.optimizer.learning_rate = 5e-3;
  shortlist_ = (*choose_shortlist(labels_, {100}, 60)).tokens;
  const auto predictor = train("run");
  ASSERT_TRUE(predictor.ok()) << predictor.status().to_string();
  const std::vector<StepMetrics> steps = metrics("run");
  EXPECT_LT(steps.back().loss, 0.8 * steps.front().loss);
  ASSERT_EQ(predictor->exits.size(), 1u);
  EXPECT_EQ(predictor->exits[0].bottleneck, 0);
  EXPECT_EQ(predictor->exits[0].head.size(), 60u * static_cast<std::size_t>(info_.hidden_size));
}

TEST_F(LabelExitTest, AResumedRunIsTheUninterruptedOne) {
  ASSERT_TRUE(train("whole").ok());
  options_.stop_after = 15;
  ASSERT_TRUE(train("parts").ok());
  options_.stop_after = 0;
  options_.resume = true;
  ASSERT_TRUE(train("parts").ok());
  const std::vector<StepMetrics> whole = metrics("whole"), parts = metrics("parts");
  ASSERT_EQ(whole.size(), parts.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i].loss, parts[i].loss) << i;
}

TEST_F(LabelExitTest, LabelsThatDoNotFitAreRefused) {
  options_.layers = {1, 2};
  EXPECT_THAT(train("run").status().message(), HasSubstr("no hidden states after layer 2"));
  options_.layers = {1};
  options_.loss = ExitLoss::kCrossEntropy;
  EXPECT_THAT(train("run").status().message(), HasSubstr("--loss must be kl"));
  options_.loss = ExitLoss::kDivergence;
  files_ = small_model(directory_.path(), "qwen2", DType::kF32);
  EXPECT_EQ(train("run").status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace outrider
