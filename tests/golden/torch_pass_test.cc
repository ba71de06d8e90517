// The torch pass with copies that arrive late, as a GPU's do: the order of things, on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/torch/torch_pass.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/golden/model_goldens.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

class LateCopies final : public HostCopies {
 public:
  // The model is done when so many copies were looked at.
  explicit LateCopies(std::vector<std::string>& log, std::size_t done_at = 100)
      : log_(log), done_at_(done_at) {}

  void queue(const float* from, std::size_t count) override {
    log_.push_back("queue");
    copies_.emplace_back(from, from + count);
  }
  std::span<const float> wait(std::size_t index) override {
    ++waits_;
    return copies_.at(index);
  }
  bool is_model_done() const override { return waits_ >= done_at_; }
  void clear() override {
    log_.push_back("clear");
    copies_.clear();
  }

 private:
  std::vector<std::string>& log_;
  const std::size_t done_at_;
  std::size_t waits_ = 0;
  std::vector<std::vector<float>> copies_;
};

class AllLayers final : public LayerTap {
 public:
  explicit AllLayers(std::vector<std::string>& log) : log_(log) {}

  bool wants(std::int32_t) const override { return true; }
  void on_layer(const HiddenRows& rows) override {
    log_.push_back("layer " + std::to_string(rows.layer));
    values.insert(values.end(), rows.values, rows.values + rows.count * rows.width);
  }
  std::vector<float> values;

 private:
  std::vector<std::string>& log_;
};

class TorchPassTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const ModelGolden& golden : load_model_goldens()) {
      if (golden.name == "llama") golden_ = golden;
    }
    write_golden(directory_.path(), golden_);
    files_ = *load_model_files(directory_.path(), {});
  }

  // Logits of five rows, the last three wanted; what the layers showed to `tap`.
  std::vector<float> run(std::unique_ptr<HostCopies> copies, LayerTap& tap) {
    const ModelConfig& config = files_->config;
    TorchPass pass(config, load_torch_weights(*files_, at::kFloat, at::kCPU), at::kCPU,
                   std::move(copies));
    auto pages = std::make_shared<TorchKvPages>(this, 1);
    for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
      pages->keys.push_back(at::zeros({KvPages::kRows, config.num_kv_heads, config.head_dim}));
      pages->values.push_back(at::zeros_like(pages->keys.back()));
    }
    KvCache cache(pages, 8);
    std::vector<Row> rows;
    Slot slot = kRootSlot;
    for (const TokenId id : std::span(golden_.ids).first(5)) {
      slot = *cache.slots().append(slot);
      rows.push_back({&cache, slot, id, rows.size() >= 2});
    }
    const at::Tensor logits = pass.run(rows, {&tap, 0});
    EXPECT_EQ(logits.size(0), 3);
    return {logits.const_data_ptr<float>(), logits.const_data_ptr<float>() + logits.numel()};
  }

  TestDirectory directory_;
  ModelGolden golden_;
  std::shared_ptr<const ModelFiles> files_;
  std::vector<std::string> log_;
};

TEST_F(TorchPassTest, LayersAreHandedOverOnceAllWorkIsQueued) {
  AllLayers in_place(log_), late(log_);
  const std::vector<float> logits = run(nullptr, in_place);
  const std::vector<std::string> layers = std::exchange(log_, {});
  ASSERT_THAT(layers, ElementsAre("layer 1", "layer 2"));
  EXPECT_EQ(run(std::make_unique<LateCopies>(log_), late), logits);
  EXPECT_THAT(log_, ElementsAre("queue", "queue", "layer 1", "layer 2", "clear"));
  EXPECT_EQ(late.values, in_place.values);
  log_.clear();
  EXPECT_EQ(run(std::make_unique<LateCopies>(log_, 1), late), logits);
  EXPECT_THAT(log_, ElementsAre("queue", "queue", "layer 1", "clear"));
}

}  // namespace
}  // namespace outrider
