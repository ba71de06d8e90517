// A pack whose layers are streamed to a device, by fibers and in drawn orders, gives the bits of
// the model in the CPU's memory: however little of it stays, and whatever fails on the way.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/rows/row_scenarios.h"
#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/model_pack_writer.h"
#include "common/engine/model/cuda/device/cuda_model.h"
#include "common/engine/model/cuda/fibers/host_device.h"
#include "common/engine/sampling/sampling.h"
#include "edge_client/flash/flash_model.h"
#include "tests/unit/common/engine/model/chunked_logits.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/recording_tap.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// Enough that streaming them takes less memory than keeping them: the buffers hold five.
constexpr std::int32_t kLayers = 9;

class DeviceFlashTest : public testing::Test {
 protected:
  std::string pack(const std::string& architecture, const std::string& dtype) {
    files_ = small_model(directory_.path(), architecture, DType::kF32, kLayers);
    ThreadPool pool(1);
    const auto weights =
        CpuWeightsLoader(kernels_for(*find_vector_target("auto")), pool, {"", {}}, {})
            .load(files_, *parse_compute_type(dtype));
    EXPECT_TRUE(weights.ok());
    const std::string path = directory_.path(architecture + "." + dtype);
    const Status written = write_model_pack(path, *weights, {});
    EXPECT_TRUE(written.ok()) << written.to_string();
    return path;
  }

  std::unique_ptr<Model> on_cpu(const std::string& dtype, const std::string& kv_dtype = "f32") {
    return *make_cpu_model(files_, {.dtype = dtype, .kv_dtype = kv_dtype, .threads = 2});
  }

  // kv_bytes: 0: as the plan has it. made: becomes the device, null: nobody asks.
  static StreamingDevice by_fibers(const cuda::HostDeviceOptions& options,
                                   const std::string& kv_dtype = "f32", std::int64_t kv_bytes = 0,
                                   cuda::DeviceApi** made = nullptr) {
    const auto needs = [kv_dtype](const CpuWeights& weights) {
      return cuda::needs_of_streamed(weights, kv_dtype);
    };
    const auto make = [=](LayerSource source) -> Result<std::unique_ptr<Model>> {
      OUTRIDER_ASSIGN_OR_RETURN(const DeviceNeeds needed, needs(source.weights));
      const auto planned = static_cast<std::int64_t>(needed.keys_and_values);
      std::unique_ptr<cuda::DeviceApi> device = cuda::make_host_device(options);
      if (made != nullptr) *made = device.get();
      return cuda::make_streamed_cuda_model(
          std::move(source), std::move(device),
          {.kv_dtype = kv_dtype, .threads = 2, .kv_bytes = kv_bytes > 0 ? kv_bytes : planned});
    };
    return {"host-cuda", needs, make};
  }

  // The least budget with so many layers in memory, to a page.
  static std::uint64_t budget_for(const std::string& path, std::int64_t layers) {
    const ModelPack pack = *ModelPack::open(path);
    FlashOptions options{.device = by_fibers({})};
    std::uint64_t less = 0, enough = std::uint64_t{1} << 30;
    while (enough - less > kDirectAlignment) {
      options.memory_budget = less + (enough - less) / 2;
      const auto plan = FlashModel::plan_for(pack, options);
      const bool holds = plan.ok() && plan->pinned_layers >= layers;
      (holds ? enough : less) = options.memory_budget;
    }
    return enough;
  }

  Result<std::unique_ptr<FlashModel>> try_open(const std::string& path, std::int64_t layers,
                                               const StreamingDevice& device,
                                               const std::string& kv_dtype = "f32") {
    return FlashModel::open(
        path, {.memory_budget = budget_for(path, layers), .kv_dtype = kv_dtype, .device = device},
        clock_);
  }
  std::unique_ptr<FlashModel> open(const std::string& path, std::int64_t layers,
                                   std::uint64_t seed) {
    auto flash = try_open(path, layers, by_fibers({.seed = seed, .poisons = true}));
    EXPECT_TRUE(flash.ok()) << flash.status().to_string();
    return flash.ok() ? *std::move(flash) : nullptr;
  }

  TestDirectory directory_;
  SystemClock clock_;
  std::shared_ptr<const ModelFiles> files_;
};

TEST_F(DeviceFlashTest, GivesTheBitsOfTheModelInMemory) {
  const std::vector<TokenId> tokens = some_tokens(7);
  std::uint64_t seed = 1;
  for (const std::string& architecture : kSmallLlamas) {
    for (const std::string dtype : {"f32", "bf16", "int8", "int4"}) {
      const std::string path = pack(architecture, dtype);
      const auto resident = on_cpu(dtype);
      const std::vector<float> expected = chunked_logits(*resident, tokens, 4);
      for (const std::int64_t layers : architecture == "llama"
                                           ? std::vector<std::int64_t>{0, kLayers}
                                           : std::vector<std::int64_t>{2}) {
        const auto flash = open(path, layers, seed++);
        ASSERT_NE(flash, nullptr);
        EXPECT_EQ(flash->plan().pinned_layers, layers);
        EXPECT_EQ(flash->model().info().arithmetic_id, resident->info().arithmetic_id);
        EXPECT_EQ(flash->model().info().fingerprint, resident->info().fingerprint);
        EXPECT_EQ(chunked_logits(flash->model(), tokens, 4), expected)
            << architecture << " " << dtype << ", " << layers << " layers in memory";
        EXPECT_EQ(flash->stats().bytes_read > 0, layers < kLayers);
      }
    }
  }
}

// Prompts in chunks, trees, rows in another order, rows beside others, commits.
TEST_F(DeviceFlashTest, EveryWayToComputeARowGivesTheCpusBits) {
  const std::string path = pack("qwen3", "int8");
  const auto flash =
      try_open(path, 1, by_fibers({.seed = 80, .poisons = true}, "bf16", 64 << 20), "bf16");
  ASSERT_TRUE(flash.ok()) << flash.status().to_string();
  RowBook book;
  const RowCase row_case = make_row_case(1, 101);
  ASSERT_TRUE(run_row_case_once(*on_cpu("int8", "bf16"), row_case, "cpu", book).ok());
  const Status status = run_row_case((*flash)->model(), row_case, "device", book);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_GT(book.compared(), 20);
  EXPECT_THAT(book.mismatched(), IsEmpty());
}

// So many rows are computed in three parts, each of which goes through a layer while it is there.
TEST_F(DeviceFlashTest, ALongPromptReadsEachLayerOnce) {
  const std::string path = pack("llama", "int8");
  const std::vector<TokenId> tokens = some_tokens(150);
  const std::vector<float> expected = chunked_logits(*on_cpu("int8"), tokens, tokens.size());
  const auto flash = open(path, 0, 90);
  ASSERT_NE(flash, nullptr);
  EXPECT_EQ(chunked_logits(flash->model(), tokens, tokens.size()), expected);
  // The stream reads ahead, for a pass that comes next.
  const std::uint64_t pass = flash->plan().streamed_bytes;
  EXPECT_GE(flash->stats().bytes_read, pass);
  EXPECT_LE(flash->stats().bytes_read, pass + flash->plan().ring_bytes);
}

// Tokens of rows of two parts, of which every other one asks for its logits.
TEST_F(DeviceFlashTest, TheDeviceChoosesTheCpusTokens) {
  const std::string path = pack("llama", "int8");
  const auto resident = on_cpu("int8");
  const TokenChoice choice{{.temperature = 0.7f, .top_k = 20}, 3};
  const auto run = [&](Model& model, PassOutput& out) {
    const auto cache = *model.new_cache(80);
    Slot last = kRootSlot;
    std::vector<Row> rows;
    for (const TokenId token : some_tokens(70)) {
      last = *cache->slots().append(last);
      rows.push_back({cache.get(), last, token, true, rows.size() % 2 == 0 ? &choice : nullptr});
    }
    EXPECT_TRUE(model.forward(rows, out).ok());
  };
  PassOutput expected, got;
  run(*resident, expected);
  run(open(path, 0, 91)->model(), got);
  ASSERT_EQ(got.chosen.size(), 70u);
  for (std::size_t row = 0; row < 70; ++row) {
    if (row % 2 == 0) {
      EXPECT_EQ(got.chosen_of(row), choose(expected.row(row), choice.sampling, choice.seed,
                                           static_cast<Position>(row) + 1));
    } else {
      EXPECT_TRUE(std::ranges::equal(got.row(row), expected.row(row))) << row;
    }
  }
}

TEST_F(DeviceFlashTest, ATapSeesTheCpusHiddenStates) {
  const std::string path = pack("llama", "int8");
  const auto run = [](Model& model, RecordingTap& tap) {
    const auto cache = *model.new_cache(80);
    Slot last = kRootSlot;
    std::vector<Row> rows;
    for (const TokenId token : some_tokens(70)) {
      last = *cache->slots().append(last);
      rows.push_back({cache.get(), last, token, rows.size() % 3 == 0});
    }
    PassOutput out;
    out.tap = &tap;
    EXPECT_TRUE(model.forward(rows, out).ok());
  };
  RecordingTap expected, got;
  run(*on_cpu("int8"), expected);
  run(open(path, 1, 92)->model(), got);
  ASSERT_EQ(expected.seen.size(), kLayers - 2u);
  EXPECT_EQ(got.seen, expected.seen);
}

TEST_F(DeviceFlashTest, GoesOnAfterAPassThatIsAbandonedOnItsWay) {
  const std::string path = pack("mistral", "bf16");
  const std::vector<TokenId> tokens = some_tokens(5);
  const std::vector<float> expected = chunked_logits(*on_cpu("bf16"), tokens, 5);
  const auto flash = open(path, 1, 93);
  ASSERT_NE(flash, nullptr);
  for (std::int32_t end = 0; end < kLayers; ++end) {
    const auto cache = *flash->model().new_cache(8);
    const Row row{cache.get(), *cache->slots().append(kRootSlot), tokens[0], true};
    std::atomic<bool> abandoned{end == 0};
    const std::atomic<bool>* const flags[] = {&abandoned};
    PassOutput out;
    out.abandoned = flags;
    out.on_layer_done = [&](std::int32_t done, std::int32_t layers) {
      EXPECT_EQ(layers, kLayers);
      abandoned = done >= end;
    };
    EXPECT_EQ(flash->model().forward({&row, 1}, out).code(), StatusCode::kCancelled);
    EXPECT_EQ(chunked_logits(flash->model(), tokens, 5), expected) << "after layer " << end;
  }
}

TEST_F(DeviceFlashTest, DamageFailsThePassOrTheOpeningAndIsNamed) {
  const std::string path = pack("qwen2", "int8");
  const auto opened = ModelPack::open(path);
  ASSERT_TRUE(opened.ok());
  directory_.flip_a_bit("qwen2.int8", opened->layer_extent(3).offset + 17);
  const auto flash = open(path, 1, 94);
  ASSERT_NE(flash, nullptr);
  for (int again = 0; again < 2; ++again) {
    const auto cache = *flash->model().new_cache(8);
    const Row row{cache.get(), *cache->slots().append(kRootSlot), 1, true};
    PassOutput out;
    const Status failed = flash->model().forward({&row, 1}, out);
    EXPECT_EQ(failed.code(), StatusCode::kDataLoss);
    EXPECT_THAT(failed.message(), AllOf(HasSubstr("layer 3"), HasSubstr("checksum")));
  }
  const auto kept = try_open(path, 4, by_fibers({}));
  EXPECT_EQ(kept.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(kept.status().message(), AllOf(HasSubstr("layer 3"), HasSubstr("checksum")));
}

// The same words as on the CPU.
TEST_F(DeviceFlashTest, AFileThatIsCutShortInAPassFailsItAndTheNextOne) {
  const std::string path = pack("llama", "int8");
  const auto flash = open(path, 0, 95);
  ASSERT_NE(flash, nullptr);
  const auto cache = *flash->model().new_cache(8);
  const Row row{cache.get(), *cache->slots().append(kRootSlot), 1, true};
  PassOutput out;
  const auto cut = [&](std::int32_t done, std::int32_t) {
    if (done == 1) std::filesystem::resize_file(path, flash->pack().layer_extent(1).offset);
  };
  out.on_layer_done = cut;
  // This pass may end well by layers that were read ahead.
  const Status first = flash->model().forward({&row, 1}, out);
  if (!first.ok()) {
    EXPECT_THAT(first.message(), HasSubstr("layer "));
  }
  out.on_layer_done = {};
  const Status second = flash->model().forward({&row, 1}, out);
  EXPECT_EQ(second.code(), StatusCode::kDataLoss) << second.to_string();
  EXPECT_THAT(second.message(), HasSubstr("cut short"));
}

// The program and the ring are the host's.
TEST_F(DeviceFlashTest, TheDeviceTakesNoMoreThanThePlanGivesIt) {
  for (const std::string dtype : {"bf16", "int4"}) {
    const std::string path = pack("qwen3", dtype);
    for (const std::int64_t layers : {0, 3}) {
      const ModelPack opened = *ModelPack::open(path);
      FlashOptions options{.memory_budget = budget_for(path, layers), .device = by_fibers({})};
      const MemoryPlan plan = *FlashModel::plan_for(opened, options);
      EXPECT_LE(plan.total_bytes, options.memory_budget);
      EXPECT_GT(plan.device_buffer_bytes, 0u);
      constexpr std::int64_t kMemory = std::int64_t{1} << 30;
      cuda::DeviceApi* device = nullptr;
      options.device = by_fibers({.limit = kMemory}, "f32", 0, &device);
      const auto flash = FlashModel::open(path, options, clock_);
      ASSERT_TRUE(flash.ok()) << flash.status().to_string();
      const auto taken = static_cast<std::uint64_t>(kMemory - device->free_memory().on_device);
      EXPECT_LE(taken, plan.total_bytes - (48 << 20) - plan.ring_bytes) << dtype << " " << layers;
      EXPECT_GT(taken, plan.pinned_bytes + plan.device_buffer_bytes / 2) << dtype << " " << layers;
    }
  }
}

TEST_F(DeviceFlashTest, ABudgetThatIsTooSmallSaysWhatTheLeastConsistsOf) {
  const std::string path = pack("llama", "int8");
  const Status refused =
      FlashModel::open(path, {.memory_budget = 1 << 20, .device = by_fibers({})}, clock_).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr("activations on device host-cuda"), HasSubstr("the output matrix"),
                    HasSubstr("keys and values of")));
}

TEST_F(DeviceFlashTest, WhatItDoesNotComputeIsRefusedByName) {
  for (const std::string architecture : {"mixtral", "qwen3_moe", "gemma2", "gpt2"}) {
    const std::string path = pack(architecture, "int8");
    const Status refused = FlashModel::open(path, {.device = by_fibers({})}, clock_).status();
    EXPECT_EQ(refused.code(), StatusCode::kUnimplemented) << architecture;
    EXPECT_THAT(refused.message(), HasSubstr("Remedy")) << architecture;
  }
  const Status several =
      FlashModel::open(pack("llama", "int8"), {.device = by_fibers({.devices = 2})}, clock_)
          .status();
  EXPECT_EQ(several.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(several.message(), HasSubstr("--gpus"));
}

}  // namespace
}  // namespace outrider
