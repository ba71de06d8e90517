// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "adapters/tokenizer/bpe_trainer.h"
#include "adapters/train/evaluate.h"
#include "adapters/train/model_io.h"
#include "adapters/train/run_files.h"
#include "adapters/train/trainer.h"

namespace outrider {
namespace {

ModelConfig tiny_config() {
  const char* json = R"({"model_type":"llama","architectures":["LlamaForCausalLM"],
    "hidden_act":"silu","vocab_size":280,"hidden_size":32,"intermediate_size":64,
    "num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,
    "max_position_embeddings":128,"rms_norm_eps":1e-5,"rope_theta":10000.0,
    "tie_word_embeddings":true,"eos_token_id":[279,277]})";
  const Result<ModelConfig> config = parse_config(json, "tiny");
  EXPECT_TRUE(config.ok()) << config.status().to_string();
  return *config;
}

// Documents of counting up from a seeded start: learnable in a few steps.
std::vector<Document> counting_documents(std::size_t count) {
  SplitMix64 random(5);
  std::vector<Document> documents(count);
  for (Document& document : documents) {
    TokenId token = random.below(200);
    for (int i = 0; i < 20; ++i) document.tokens.push_back(token++);
    document.learnt.assign(document.tokens.size(), 1);
  }
  return documents;
}

Packer counting_packer() {
  Source source;
  source.documents = counting_documents(64);
  return Packer({source}, 3, 277);
}

class Training : public testing::Test {
 protected:
  void SetUp() override {
    // Two threads wait for each other longer than models this small compute.
    at::set_num_threads(1);
    directory_ = testing::TempDir() + "training_" +
                 testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_ + "/tokenizer");
    const Result<TrainedBpe> bpe = train_bpe({"one two three four five six one two"}, 280);
    std::ofstream(directory_ + "/tokenizer/tokenizer.json") << tokenizer_json(*bpe);
    std::ofstream(directory_ + "/tokenizer/tokenizer_config.json")
        << tokenizer_config_json(280, 128);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  TrainOptions options(const std::string& name, std::int64_t steps) const {
    TrainOptions options;
    options.out = directory_ + "/" + name;
    options.tokenizer = directory_ + "/tokenizer";
    options.batch = 2;
    options.length = 48;
    options.long_every = 3;
    options.evaluate_every = 4;
    options.checkpoint_every = 4;
    options.optimizer.total_steps = steps;
    options.optimizer.warmup_steps = 2;
    options.optimizer.learning_rate = 3e-3;
    return options;
  }

  Result<std::vector<StepMetrics>> run(Llama& model, const TrainOptions& options) const {
    const auto loss = [&](const Batch& batch) { return next_token_loss(model, batch); };
    const Status status =
        train(model, counting_packer(), loss, {{"counting", counting_documents(8)}}, options);
    if (!status.ok()) return status;
    return read_metrics(options.out + "/metrics.jsonl");
  }

  std::string directory_;
};

std::vector<double> losses(const std::vector<StepMetrics>& metrics) {
  std::vector<double> values;
  for (const StepMetrics& one : metrics) values.push_back(one.loss);
  return values;
}

TEST_F(Training, AStoppedRunGoesOnBitForBitAsIfItHadNot) {
  Llama whole(tiny_config(), at::kFloat, 1), first(tiny_config(), at::kFloat, 1),
      second(tiny_config(), at::kFloat, 99);  // its weights come from the checkpoint
  const auto straight = run(whole, options("straight", 12));
  TrainOptions broken = options("broken", 12);
  broken.stop_after = 5;
  ASSERT_TRUE(run(first, broken).ok());
  broken.stop_after = 0;
  broken.resume = true;
  const auto resumed = run(second, broken);
  ASSERT_TRUE(straight.ok() && resumed.ok());
  EXPECT_EQ(losses(*straight), losses(*resumed));
  const NamedTensors one = whole.state(), other = second.state();
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(at::equal(one[i].second, other[i].second)) << one[i].first;
  }
}

TEST_F(Training, StepsBehindTheCheckpointAreDroppedFromTheMetrics) {
  Llama model(tiny_config(), at::kFloat, 1);
  TrainOptions once = options("run", 8);
  once.stop_after = 4;
  ASSERT_TRUE(run(model, once).ok());
  {
    std::ofstream metrics(once.out + "/metrics.jsonl", std::ios::app);
    metrics << R"({"step":5,"loss":1.0})"
            << "\n";
  }
  once.resume = true;
  Llama again(tiny_config(), at::kFloat, 1);
  const auto metrics = run(again, once);
  ASSERT_TRUE(metrics.ok());
  ASSERT_EQ(metrics->size(), 8u);
  for (std::size_t i = 0; i < metrics->size(); ++i) {
    EXPECT_EQ((*metrics)[i].step, static_cast<std::int64_t>(i + 1));
    EXPECT_NE((*metrics)[i].loss, 1.0);
  }
}

TEST_F(Training, LearnsToCountAndMeasuresIt) {
  Llama model(tiny_config(), at::kFloat, 1);
  const auto metrics = run(model, options("run", 150));
  ASSERT_TRUE(metrics.ok());
  EXPECT_GT(metrics->front().loss, 5.0);
  EXPECT_LT(metrics->back().loss, 3.0);
  EXPECT_LT(metrics->back().held_out.at("counting").loss, 3.0);
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/run/loss.svg"));
}

TEST_F(Training, RefusesToWriteOverAnotherRun) {
  Llama model(tiny_config(), at::kFloat, 1);
  ASSERT_TRUE(run(model, options("run", 2)).ok());
  const auto again = run(model, options("run", 2));
  EXPECT_EQ(again.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(again.status().message().find("--resume"), std::string::npos);
}

TEST_F(Training, RefusesADirectoryOfAnotherProgramBeforeTheFirstStep) {
  for (const std::string file : {"config.json", "tokenizer.json", "model.safetensors"}) {
    Llama model(tiny_config(), at::kFloat, 1);
    const TrainOptions into = options("run-" + file, 2);
    std::filesystem::create_directories(into.out);
    std::ofstream(into.out + "/" + file) << "of another program";
    const auto refused = run(model, into);
    ASSERT_FALSE(refused.ok()) << file;
    EXPECT_NE(refused.status().message().find(file), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(into.out + "/metrics.jsonl")) << "no step was done";
  }
}

TEST_F(Training, RefusesSequencesBeyondTheContext) {
  Llama model(tiny_config(), at::kFloat, 1);
  TrainOptions long_ones = options("run", 2);
  long_ones.length = 100;  // twice as long every third step
  EXPECT_EQ(run(model, long_ones).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(Training, AModelComesBackFromItsDirectory) {
  Llama model(tiny_config(), at::kFloat, 1);
  const std::string out = directory_ + "/model";
  ASSERT_TRUE(save_model(out, model, DType::kF32, directory_ + "/tokenizer").ok());
  const Result<Llama> back = load_model(out, at::kFloat);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  at::NoGradGuard no_grad;
  const at::Tensor ids = at::arange(24, at::kLong).view({2, 12});
  EXPECT_TRUE(at::equal(model.hidden(ids), back->hidden(ids)));
  EXPECT_TRUE(std::filesystem::exists(out + "/tokenizer.json"));
  EXPECT_EQ(back->config().stop_ids, (std::vector<TokenId>{279, 277}));
}

TEST_F(Training, DistillationBringsADraftToTheTargetsGuesses) {
  Llama target(tiny_config(), at::kFloat, 1);
  ASSERT_TRUE(run(target, options("target", 80)).ok());
  Llama draft(tiny_config(), at::kFloat, 2);
  const auto loss = [&](const Batch& batch) {
    return distillation_loss(draft, target, batch, 0.5);
  };
  ASSERT_TRUE(train(draft, counting_packer(), loss, {}, options("draft", 80)).ok());
  const std::vector<Document> documents = counting_documents(8);
  at::NoGradGuard no_grad;
  double same = 0;
  for (const Document& document : documents) {
    const std::vector<std::int64_t> tokens(document.tokens.begin(), document.tokens.end());
    const at::Tensor ids = at::tensor(tokens, at::kLong).unsqueeze(0);
    const auto guess = [&](const Llama& model) {
      return model.logits(model.hidden(ids)).argmax(-1);
    };
    same += guess(target).eq(guess(draft)).to(at::kDouble).mean().item<double>();
  }
  EXPECT_GT(same / static_cast<double>(documents.size()), 0.6);
}

TEST(Distillation, IsZeroAgainstOneself) {
  Llama model(tiny_config(), at::kFloat, 1);
  const Batch batch{at::arange(16, at::kLong).view({1, 16}),
                    at::arange(1, 9, at::kLong),
                    at::arange(8, at::kLong),
                    {}};
  EXPECT_NEAR(distillation_loss(model, model, batch, 0).item<double>(), 0.0, 1e-6);
}

TEST(Optimizer, ClipsTheGlobalNormOfTheGradients) {
  const auto trained = [](double scale) {
    at::Tensor weight = at::zeros({2, 2}).set_requires_grad(true);
    OptimizerOptions options{.learning_rate = 0.1, .warmup_steps = 1, .max_gradient_norm = 1.0};
    AdamW optimizer({{"weight", weight}}, options);
    weight.mutable_grad() = at::tensor({3.0f, 0.0f, 0.0f, 4.0f}).view({2, 2}) * scale;
    const double norm = optimizer.step();
    EXPECT_NEAR(norm, 5 * scale, 1e-5);
    return optimizer.state()[0].second.clone();  // the first moment: 0.1 of the gradient used
  };
  const at::Tensor unit = at::tensor({0.06f, 0.0f, 0.0f, 0.08f}).view({2, 2});
  EXPECT_TRUE(at::allclose(trained(1.0), unit, 1e-4, 1e-6));        // norm 5, scaled to 1
  EXPECT_TRUE(at::allclose(trained(100.0), unit, 1e-4, 1e-6));      // norm 500, scaled to 1
  EXPECT_TRUE(at::allclose(trained(0.1), unit * 0.5, 1e-4, 1e-6));  // norm 0.5, left alone
}

TEST(Optimizer, ANonFiniteGradientStopsTheRun) {
  at::Tensor weight = at::zeros({2, 2}).set_requires_grad(true);
  AdamW optimizer({{"weight", weight}}, {});
  weight.mutable_grad() = at::full({2, 2}, NAN);
  EXPECT_THROW(optimizer.step(), std::runtime_error);
}

TEST(Optimizer, TheLearningRateRisesThenFallsByHalfACosine) {
  const OptimizerOptions options{
      .learning_rate = 1.0, .final_fraction = 0.1, .warmup_steps = 10, .total_steps = 110};
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 10), 1.0);
  EXPECT_NEAR(learning_rate_at(options, 60), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate_at(options, 110), 0.1, 1e-12);
}

}  // namespace
}  // namespace outrider
