// The libtorch backend: against transformers, row by row against itself, and where it must refuse.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/engine/model/loader/loader.h"
#include "common/engine/model/torch/torch_model.h"
#include "tests/golden/model_goldens.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Model> load(const std::string& directory) {
  const auto files = load_model_files(directory, {});
  EXPECT_TRUE(files.ok()) << files.status().to_string();
  LoadOptions options;
  options.threads = 1;
  auto model = make_torch_model(*files, options);
  EXPECT_TRUE(model.ok()) << model.status().to_string();
  return *std::move(model);
}

ModelGolden golden_of(const std::string& name) {
  for (const ModelGolden& golden : load_model_goldens()) {
    if (golden.name == name) return golden;
  }
  ADD_FAILURE() << "no golden " << name;
  return {};
}

TEST(TorchModelTest, ComputesWhatTransformersComputesAndRefusesBlocksItDoesNotKnow) {
  int computed = 0;
  for (const ModelGolden& golden : load_model_goldens()) {
    TestDirectory directory;
    write_golden(directory.path(), golden);
    const auto files = *load_model_files(directory.path(), {});
    if (check_llama_blocks(files->config, "torch").ok()) {
      EXPECT_LE(distance(*load(directory.path()), golden), kGoldenBar) << golden.name;
      ++computed;
    } else {
      EXPECT_EQ(make_torch_model(files, {}).status().code(), StatusCode::kUnimplemented)
          << golden.name;
    }
  }
  EXPECT_GE(computed, 8);
}

// The logits of the last of `ids`, in passes of `rows_per_pass` rows.
std::vector<float> chain_logits(Model& model, std::span<const TokenId> ids,
                                std::size_t rows_per_pass) {
  const auto cache = *model.new_cache(static_cast<std::int32_t>(ids.size()));
  PassOutput out;
  while (!ids.empty()) {
    std::vector<Row> rows;
    Slot slot = kRootSlot;
    for (const TokenId id : ids.first(std::min(ids.size(), rows_per_pass))) {
      slot = *cache->slots().append(slot);
      rows.push_back({cache.get(), slot, id, rows.size() + 1 == ids.size()});
    }
    EXPECT_TRUE(model.forward(rows, out).ok());
    cache->slots().commit(slot);
    ids = ids.subspan(rows.size());
  }
  return out.logits;
}

TEST(TorchModelTest, ARowHasTheSameBitsInAnyChunkingAndInATree) {
  for (const char* name : {"qwen3_bias_window", "llama_tied_gqa"}) {
    const ModelGolden golden = golden_of(name);
    TestDirectory directory;
    write_golden(directory.path(), golden);
    const std::unique_ptr<Model> model = load(directory.path());
    const auto ids = std::span(golden.ids).first(40);
    const std::vector<float> alone = chain_logits(*model, ids, 1);
    for (const std::size_t rows : {2, 7, 16, 17, 40}) {
      EXPECT_EQ(chain_logits(*model, ids, rows), alone) << name << " in chunks of " << rows;
    }
    // The same row beside siblings, in slots that lie in another order.
    const auto cache = *model->new_cache(64);
    std::vector<Slot> taken;
    for (int i = 0; i < 20; ++i) taken.push_back(*cache->slots().append(kRootSlot));
    for (const Slot slot : taken) cache->slots().release(slot);
    std::vector<Row> rows;
    Slot slot = kRootSlot;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i > 20) rows.push_back({cache.get(), *cache->slots().append(slot), 3, false});
      slot = *cache->slots().append(slot);
      rows.push_back({cache.get(), slot, ids[i], i + 1 == ids.size()});
    }
    PassOutput out;
    const Status status = model->forward(rows, out);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(out.logits, alone) << name;
  }
}

// Keeps the hidden states after layer 1.
class FirstLayer final : public LayerTap {
 public:
  bool wants(std::int32_t layer) const override { return layer == 1; }
  void on_layer(const HiddenRows& rows) override {
    EXPECT_EQ(rows.first * rows.width, values.size());
    values.insert(values.end(), rows.values, rows.values + rows.count * rows.width);
  }
  std::vector<float> values;
};

TEST(TorchModelTest, ATapSeesWhatItSeesInTheCpuBackend) {
  const ModelGolden golden = golden_of("llama");
  TestDirectory directory;
  write_golden(directory.path(), golden);
  LoadOptions options;
  options.directory = directory.path();
  options.threads = 1;
  const std::unique_ptr<Model> cpu = *load_model(options), torch = load(directory.path());
  std::vector<std::vector<float>> seen;
  for (Model* model : {cpu.get(), torch.get()}) {
    const auto cache = *model->new_cache(64);
    std::vector<Row> rows;
    Slot slot = kRootSlot;
    for (const TokenId id : std::span(golden.ids).first(20)) {
      slot = *cache->slots().append(slot);
      rows.push_back({cache.get(), slot, id, rows.size() % 3 == 1});
    }
    FirstLayer tap;
    PassOutput out{.tap = &tap};
    ASSERT_TRUE(model->forward(rows, out).ok());
    seen.push_back(std::move(tap.values));
  }
  ASSERT_EQ(seen[0].size(), seen[1].size());
  ASSERT_EQ(seen[0].size(), static_cast<std::size_t>(7 * cpu->info().hidden_size));
  for (std::size_t i = 0; i < seen[0].size(); ++i) ASSERT_NEAR(seen[0][i], seen[1][i], 1e-3) << i;
}

TEST(TorchModelTest, RefusesWhatItDoesNotHave) {
  const ModelGolden golden = golden_of("llama");
  TestDirectory directory;
  write_golden(directory.path(), golden);
  const auto files = load_model_files(directory.path(), {});
  ASSERT_TRUE(files.ok());
  LoadOptions options;
  options.dtype = "int8";
  EXPECT_THAT(make_torch_model(*files, options).status().message(), HasSubstr("dtype \"int8\""));
  options.dtype = "auto";
  const std::unique_ptr<Model> model = load(directory.path());
  EXPECT_EQ(model->new_cache(0).status().code(), StatusCode::kInvalidArgument);
  const auto cache = *model->new_cache(4);
  PassOutput out;
  const std::vector<Row> rows = {{cache.get(), 0, 1}};
  EXPECT_EQ(model->forward(rows, out).code(), StatusCode::kInvalidArgument);
}

// On a machine with a GPU the golden figures hold there too; elsewhere the refusal says why.
TEST(TorchModelTest, CudaComputesTheSameOrIsRefusedWithTheReason) {
  const ModelGolden golden = golden_of("qwen3_bias_window");
  TestDirectory directory;
  write_golden(directory.path(), golden);
  LoadOptions options;
  options.device = "torch-cuda";
  const auto model = make_torch_model(*load_model_files(directory.path(), {}), options);
  if (model.ok()) {
    EXPECT_LE(distance(**model, golden), kGoldenBar);
    EXPECT_EQ(chain_logits(**model, golden.ids, 1), chain_logits(**model, golden.ids, 70));
  } else {
    EXPECT_EQ(model.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(model.status().message(), HasSubstr("device torch-cuda: "));
  }
}

}  // namespace
}  // namespace outrider
