// Levels of elastic models on the cuda backend's kernels, by fibers, beside the cpu backend: no bit
// of a logit and no id may differ. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cuda/device/cuda_model.h"
#include "common/engine/model/cuda/fibers/host_device.h"
#include "tests/unit/common/engine/model/cpu/elastic_samples.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kTokens = 11, kChunk = 5;

class DeviceLevelsTest : public ElasticSampleTest {
 protected:
  static std::unique_ptr<Model> on_cpu(const std::shared_ptr<const ModelFiles>& files,
                                       const std::string& dtype) {
    return *make_cpu_model(files, {.dtype = dtype, .threads = 2});
  }
  static std::unique_ptr<Model> on_device(const std::shared_ptr<const ModelFiles>& files,
                                          const std::string& dtype, int devices = 1) {
    return *cuda::make_cuda_model(
        files, cuda::make_host_device({.seed = 3, .poisons = true, .devices = devices}),
        {.dtype = dtype, .threads = 2, .kv_bytes = 32 << 20});
  }

  static void expect_the_cpus_levels(const std::shared_ptr<const ModelFiles>& files,
                                     const std::string& dtype) {
    const auto cpu = on_cpu(files, dtype), device = on_device(files, dtype);
    for (const std::string name : {"100", "70", "30"}) {
      const auto expected = *make_level(*cpu, name);
      const auto level = make_level(*device, name);
      ASSERT_TRUE(level.ok()) << level.status().to_string();
      EXPECT_EQ(0u, other_bits(logits_in_chunks(**level, kChunk, kTokens),
                               logits_in_chunks(*expected, kChunk, kTokens)))
          << files->name << " as " << dtype << ", level " << name;
      EXPECT_EQ((*level)->info().arithmetic_id, expected->info().arithmetic_id);
      EXPECT_EQ((*level)->info().fingerprint, expected->info().fingerprint);
      EXPECT_EQ((*level)->info().name, expected->info().name);
      EXPECT_EQ((*level)->info().weight_bytes, expected->info().weight_bytes);
    }
  }
};

TEST_F(DeviceLevelsTest, HaveTheCpusBitsInEveryDtype) {
  const auto files = with_table(written(elastic_config(), DType::kF32), Order::kUnits);
  for (const char* dtype : {"auto", "bf16", "int8", "int4"}) expect_the_cpus_levels(files, dtype);
}

TEST_F(DeviceLevelsTest, HaveTheCpusBitsWithBiasesAndInBlocksWithUnits) {
  expect_the_cpus_levels(with_table(written(elastic_config("qwen2"), DType::kF32), Order::kUnits),
                         "int8");
  for (const BlockKind& kind : kBlockKinds) {
    if (kind.type != GgufTensorType::kQ4_K && kind.type != GgufTensorType::kQ6_K) continue;
    const std::string path =
        directory_.path("b" + std::to_string(static_cast<int>(kind.type)) + ".gguf");
    std::ofstream(path, std::ios::binary) << blocks_gguf(elastic_config(), kind);
    expect_the_cpus_levels(with_table(path, Order::kGroups), "auto");
  }
}

// One sequence of each level in each pass; the whole model computes a pass of its own after it.
TEST_F(DeviceLevelsTest, ShareAPass) {
  const auto files = with_table(written(elastic_config(), DType::kF32), Order::kUnits);
  const auto cpu = on_cpu(files, "int8"), device = on_device(files, "int8");
  const auto logits = [&](Model& model) {
    const auto pages = *model.new_pages(8);
    std::vector<std::unique_ptr<KvCache>> caches;
    for (std::size_t level = 0; level < 3; ++level) {
      caches.push_back(std::make_unique<KvCache>(pages, 64, 0, level));
    }
    std::vector<Slot> last(3, kRootSlot);
    std::vector<float> all;
    for (TokenId i = 0; i < 4; ++i) {
      std::vector<Row> rows;
      for (const std::size_t level : {2, 0, 1}) {
        last[level] = *caches[level]->slots().append(last[level]);
        rows.push_back({caches[level].get(), last[level], i * 37 % 101, i != 2 || level != 0});
      }
      PassOutput out;
      const Status done = model.forward(rows, out);
      EXPECT_TRUE(done.ok()) << done.to_string();
      all.insert(all.end(), out.logits.begin(), out.logits.end());
    }
    return all;
  };
  const auto expected = make_leveled_model(*cpu), leveled = make_leveled_model(*device);
  ASSERT_TRUE(leveled.ok()) << leveled.status().to_string();
  EXPECT_EQ((*leveled)->info().arithmetic_id, cpu->info().arithmetic_id);
  EXPECT_EQ(0u, other_bits(logits(**leveled), logits(**expected)));
  EXPECT_EQ(0u, other_bits(logits_in_chunks(*device, kChunk, kTokens),
                           logits_in_chunks(*cpu, kChunk, kTokens)));
}

TEST_F(DeviceLevelsTest, SeveralDevicesHaveNone) {
  const auto files = with_table(written(elastic_config(), DType::kF32), Order::kStored);
  const auto two = on_device(files, "int8", 2);
  EXPECT_THAT(make_level(*two, "70").status().message(), HasSubstr("one GPU"));
  EXPECT_THAT(make_leveled_model(*two).status().message(), HasSubstr("one GPU"));
  const auto plain =
      on_device(*load_model_files(written(elastic_config(), DType::kF32), {}), "int8");
  EXPECT_THAT(make_level(*plain, "70").status().message(), HasSubstr("--elastic"));
}

}  // namespace
}  // namespace outrider
