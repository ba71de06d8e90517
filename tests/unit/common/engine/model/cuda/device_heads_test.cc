// Exits that the cuda backend computes beside its pass, by fibers, beside the CPU's: no bit of a
// logit may differ. SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/device_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "common/decoding/exits/adapter_heads.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/cuda/device/cuda_model.h"
#include "common/engine/model/cuda/fibers/host_device.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

constexpr std::size_t kNarrow = 5, kWide = 40;

// Computes each exit's logits twice: as shown by the model, and on the CPU.
class ComparingTap final : public LayerTap {
 public:
  explicit ComparingTap(ExitHeads& heads) : heads_(heads) {}

  bool wants(std::int32_t layer) const override {
    return std::ranges::count(heads_.layers(), layer) > 0;
  }
  void on_layer(const HiddenRows& rows) override {
    EXPECT_NE(rows.head_logits, nullptr) << "layer " << rows.layer;
    HiddenRows without = rows;
    without.head_logits = nullptr;
    const std::vector<float> shown = compute(rows), expected = compute(without);
    EXPECT_EQ(0, std::memcmp(shown.data(), expected.data(), shown.size() * sizeof(float)))
        << "layer " << rows.layer << ", " << rows.count << " rows";
    num_rows[rows.layer] += rows.count;
  }

  std::map<std::int32_t, std::size_t> num_rows;

 private:
  std::vector<float> compute(const HiddenRows& rows) {
    const auto layers = heads_.layers();
    const auto exit = std::ranges::find(layers, rows.layer) - layers.begin();
    std::vector<float> logits(rows.count * kVocabulary);
    heads_.compute(static_cast<std::size_t>(exit), rows, logits);
    return logits;
  }

  static constexpr std::size_t kVocabulary = 101;
  ExitHeads& heads_;
};

class DeviceHeadsTest : public ::testing::Test {
 protected:
  DeviceHeadsTest() : info_((*make_cpu_model(files_, {.threads = 1}))->info()) {
    const std::int32_t layers[] = {1, 3};
    adapters_ = random_adapters(info_, layers, kNarrow, 3);
    adapters_.exits[0] = random_adapters(info_, std::span(layers, 1), kWide, 4).exits[0];
    adapters_.exits[1].norm[2] = 1.5f;
  }

  std::unique_ptr<Model> on_device(cuda::HostDeviceOptions options) {
    return *cuda::make_cuda_model(files_, cuda::make_host_device(options),
                                  {.dtype = "int8", .threads = 1, .kv_bytes = 16 << 20});
  }

  // Passes of 1, 12 and 40 rows, of which every second one wants its logits.
  void expect_the_cpus_logits(const ExitAdapters& adapters, cuda::HostDeviceOptions options) {
    const auto model = on_device(options);
    const auto heads = *make_adapter_heads(adapters, *files_);
    PassOutput out;
    ComparingTap tap(*heads);
    out.tap = &tap;
    const Status offered = heads->offer_to(*model);
    ASSERT_TRUE(offered.ok()) << offered.to_string();
    const auto cache = *model->new_cache(64);
    Slot last = kRootSlot;
    for (const int count : {1, 12, 40}) {
      std::vector<Row> rows;
      for (int i = 0; i < count; ++i) {
        last = *cache->slots().append(last);
        rows.push_back({cache.get(), last, (i * 7 + count) % 101, i % 2 == 0});
      }
      ASSERT_TRUE(model->forward(rows, out).ok());
    }
    for (const std::int32_t layer : heads->layers()) EXPECT_EQ(tap.num_rows[layer], 27u);
  }

  TestDirectory directory_;
  std::shared_ptr<const ModelFiles> files_ =
      small_model(directory_.path(), "llama", DType::kBF16, 4);
  ModelInfo info_;
  ExitAdapters adapters_;
};

TEST_F(DeviceHeadsTest, AreTheCpusInEveryOrderOnEveryNumberOfDevices) {
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    expect_the_cpus_logits(adapters_,
                           {.seed = seed, .poisons = true, .devices = seed == 3 ? 2 : 1});
  }
}

TEST_F(DeviceHeadsTest, MayHaveAShortlistAHeadOfTheirOwnAndNoAdapter) {
  adapters_.shortlist = {0, 3, 50, 100};
  const auto hidden = static_cast<std::size_t>(info_.hidden_size);
  std::vector<std::uint16_t> head(4 * hidden);
  for (std::size_t i = 0; i < head.size(); ++i) {
    head[i] = to_bf16(0.05f * static_cast<float>(i % 17) - 0.3f);
  }
  adapters_.exits[0] = {.layer = 1, .head = head};
  expect_the_cpus_logits(adapters_, {.seed = 5, .poisons = true});
}

// Graphs that were recorded before them compute none.
TEST_F(DeviceHeadsTest, MayComeAfterPasses) {
  const auto model = on_device({.seed = 6, .poisons = true});
  const auto heads = *make_adapter_heads(adapters_, *files_);
  const auto cache = *model->new_cache(64);
  const std::vector<Row> rows = {{cache.get(), *cache->slots().append(kRootSlot), 5}};
  PassOutput out;
  ComparingTap tap(*heads);
  ASSERT_TRUE(model->forward(rows, out).ok());
  ASSERT_TRUE(heads->offer_to(*model).ok());
  out.tap = &tap;
  ASSERT_TRUE(model->forward(rows, out).ok());
  EXPECT_EQ(tap.num_rows[3], 1u);
}

TEST_F(DeviceHeadsTest, TheCpuLeavesThemToTheCaller) {
  const auto heads = *make_adapter_heads(adapters_, *files_);
  EXPECT_EQ(heads->offer_to(**make_cpu_model(files_, {.threads = 1})).code(),
            StatusCode::kUnimplemented);
}

// A head whose logits are 4 MiB a row, of 32 MiB at most.
TEST_F(DeviceHeadsTest, LeaveVeryManyRowsToTheHost) {
  const auto device = cuda::make_host_device({});
  const std::vector<float> norm(32, 1.0f);
  const WeightMatrix narrow{.type = WeightType::kQuantized,
                            .format = {.bits = 8, .scales = ScaleType::kF32},
                            .outputs = 1 << 20,
                            .inputs = 32};
  const std::vector<std::byte> panels(static_cast<std::size_t>(bytes_of(narrow)));
  LayerHeads heads{.epsilon = 1e-5f, .final_norm = norm};
  heads.heads.push_back({.layer = 2, .output = narrow});
  heads.heads[0].output.data = panels.data();
  const auto made = cuda::DeviceHeads::make(*device, heads, 32, 512);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_TRUE((*made)->computes(2, 8));
  EXPECT_FALSE((*made)->computes(2, 9));
  EXPECT_FALSE((*made)->computes(1, 1));
}

TEST_F(DeviceHeadsTest, WithoutMemoryAreRefused) {
  const auto device = cuda::make_host_device({.limit = 1 << 20});
  const std::vector<float> norm(1 << 20, 1.0f);
  EXPECT_EQ(cuda::DeviceHeads::make(*device, {.final_norm = norm}, 1 << 20, 4).status().code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace outrider
