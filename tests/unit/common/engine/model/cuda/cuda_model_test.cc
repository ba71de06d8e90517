// The model on the cuda backend's kernels, by fibers and in drawn orders, beside the cpu backend:
// no bit of a logit or of a hidden state may differ. SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/cuda_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "bench/rows/row_scenarios.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cuda/fibers/host_device.h"
#include "common/engine/model/format/model_writer.h"
#include "common/engine/model/row_check.h"
#include "common/engine/sampling/sampling.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/recording_tap.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kKvBytes = 16 << 20;

struct Kind {
  const char* dtype;
  const char* kv_dtype;
};

class CudaModelTest : public ::testing::Test {
 protected:
  std::unique_ptr<Model> on_cpu(std::shared_ptr<const ModelFiles> files, const Kind& kind) {
    auto model = make_cpu_model(std::move(files),
                                {.dtype = kind.dtype, .kv_dtype = kind.kv_dtype, .threads = 1});
    EXPECT_TRUE(model.ok()) << model.status().to_string();
    return *std::move(model);
  }
  std::unique_ptr<Model> on_device(std::shared_ptr<const ModelFiles> files, const Kind& kind,
                                   std::uint64_t seed, std::int64_t kv_bytes = kKvBytes,
                                   int devices = 1) {
    auto model = cuda::make_cuda_model(
        std::move(files),
        cuda::make_host_device({.seed = seed, .poisons = true, .devices = devices}),
        {.dtype = kind.dtype, .kv_dtype = kind.kv_dtype, .threads = 1, .kv_bytes = kv_bytes});
    EXPECT_TRUE(model.ok()) << model.status().to_string();
    return *std::move(model);
  }
  // Two layers, a vocabulary of 1,000.
  std::shared_ptr<const ModelFiles> wide_model(std::int32_t hidden, std::int32_t heads,
                                               std::int32_t kv_heads, std::int32_t head_dim) {
    ModelConfig config = small_config("llama");
    config.vocab_size = 1000;
    config.hidden_size = hidden;
    config.intermediate_size = 2 * hidden + 40;
    config.num_heads = heads;
    config.num_kv_heads = kv_heads;
    config.head_dim = head_dim;
    const std::string path = directory_.path("hidden" + std::to_string(hidden));
    const Status written = write_model(path, config, DType::kF32, random_source(3));
    EXPECT_TRUE(written.ok()) << written.to_string();
    return *load_model_files(path, {});
  }

  TestDirectory directory_;
};

// Rows of a sequence whose slots are appended under each other or under the root.
struct Sequence {
  std::unique_ptr<KvCache> cache;
  std::vector<Slot> slots;

  Sequence(Model& model, std::int32_t capacity) : cache(*model.new_cache(capacity)) {}

  // parent: index of an earlier row, or -1.
  Row add(TokenId token, int parent, bool wants = true) {
    const Slot under = parent < 0 ? kRootSlot : slots[static_cast<std::size_t>(parent)];
    slots.push_back(*cache->slots().append(under));
    return {cache.get(), slots.back(), token, wants};
  }
};

// Two passes of three sequences: prompts in one, then trees and chains in one.
std::vector<float> mixed_passes(Model& model, int longest) {
  std::vector<float> all;
  std::vector<Sequence> sequences;
  std::vector<Row> rows;
  const auto run = [&] {
    PassOutput out;
    const Status status = model.forward(rows, out);
    EXPECT_TRUE(status.ok()) << status.to_string();
    all.insert(all.end(), out.logits.begin(), out.logits.end());
    rows.clear();
  };
  for (const int length : {longest, 1, 9}) {
    Sequence& sequence = sequences.emplace_back(model, 200);
    for (int i = 0; i < length; ++i) {
      rows.push_back(sequence.add((i * 7 + length) % 101, i - 1, i + 2 > length));
    }
  }
  run();
  for (Sequence& sequence : sequences) {
    sequence.cache->slots().commit(sequence.slots.back());
    sequence.slots.clear();
    for (int node = 0; node < 6; ++node) {
      rows.push_back(sequence.add(5 + node * 11,
                                  std::vector{-1, 0, 0, 1, -1, 4}[static_cast<std::size_t>(node)]));
    }
  }
  run();
  return all;
}

void expect_same_bits(const std::vector<float>& expected, const std::vector<float>& got,
                      const std::string& what) {
  ASSERT_EQ(expected.size(), got.size()) << what;
  std::size_t different = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    different += std::memcmp(&expected[i], &got[i], sizeof(float)) != 0 ? 1 : 0;
  }
  EXPECT_EQ(different, 0u) << what << ", of " << got.size();
}

TEST_F(CudaModelTest, SessionsOfOnePassHaveTheCpusBitsAndOtherBlocksAreRefused) {
  std::uint64_t seed = 1;
  for (const std::string& architecture : kSmallModels) {
    const auto files = small_model(directory_.path(), architecture, DType::kF32);
    if (!check_llama_blocks(files->config, "cuda").ok()) {
      EXPECT_EQ(cuda::make_cuda_model(files, cuda::make_host_device({}), {}).status().code(),
                StatusCode::kUnimplemented)
          << architecture;
      continue;
    }
    for (const Kind& kind : {Kind{"f32", "f32"}, Kind{"int8", "bf16"}}) {
      const int longest = architecture == "mistral" ? 70 : 12;  // as its window
      const std::vector<float> expected = mixed_passes(*on_cpu(files, kind), longest);
      const std::string what = architecture + " " + kind.dtype;
      expect_same_bits(expected, mixed_passes(*on_device(files, kind, seed++), longest), what);
    }
  }
  EXPECT_GE(seed, 9u) << "four families, in two dtypes";
}

TEST_F(CudaModelTest, EveryDtypeHasTheCpusBitsAndId) {
  const auto files = wide_model(96, 4, 2, 24);
  std::uint64_t seed = 10;
  for (const Kind& kind :
       {Kind{"f32", "bf16"}, Kind{"bf16", "f32"}, Kind{"int8", "f32"}, Kind{"int4", "bf16"}}) {
    const auto cpu = on_cpu(files, kind);
    const auto device = on_device(files, kind, seed++);
    expect_same_bits(mixed_passes(*cpu, 20), mixed_passes(*device, 20), kind.dtype);
    EXPECT_EQ(cpu->info().arithmetic_id, device->info().arithmetic_id);
    EXPECT_EQ(cpu->info().dtype, device->info().dtype);
    EXPECT_EQ(cpu->info().kv_bytes_per_position, device->info().kv_bytes_per_position);
  }
}

TEST_F(CudaModelTest, AWideModelHasTheCpusBits) {
  const auto files = wide_model(576, 9, 3, 64);
  for (const Kind& kind : {Kind{"int4", "f32"}, Kind{"bf16", "bf16"}}) {
    expect_same_bits(mixed_passes(*on_cpu(files, kind), 6),
                     mixed_passes(*on_device(files, kind, 20), 6), kind.dtype);
  }
}

// Outputs and heads are split; no sum is.
TEST_F(CudaModelTest, AnyNumberOfDevicesGivesTheCpusBitsAndId) {
  // Eight heads of keys; on eight devices each has one, and some have no other outputs.
  const auto files = wide_model(160, 16, 8, 32);
  std::uint64_t seed = 50;
  for (const Kind& kind : {Kind{"bf16", "f32"}, Kind{"int8", "bf16"}}) {
    const auto cpu = on_cpu(files, kind);
    const std::vector<float> expected = mixed_passes(*cpu, 2);
    for (const int devices : {1, 2, 4, 8}) {
      const auto model = on_device(files, kind, seed++, kKvBytes, devices);
      const std::string what = std::string(kind.dtype) + " on " + std::to_string(devices);
      expect_same_bits(expected, mixed_passes(*model, 2), what);
      EXPECT_EQ(model->info().arithmetic_id, cpu->info().arithmetic_id) << what;
    }
  }
}

// Prompts in chunks, trees, rows in another order, rows beside others, commits.
TEST_F(CudaModelTest, EveryWayToComputeARowGivesTheCpusBits) {
  const auto files = small_model(directory_.path(), "qwen3", DType::kF32);
  const Kind kind{"int8", "f32"};
  RowBook book;
  const auto cpu = on_cpu(files, kind);
  const auto device = on_device(files, kind, 30, 64 << 20);
  const RowCase row_case = make_row_case(1, 101);
  ASSERT_TRUE(run_row_case_once(*cpu, row_case, "cpu", book).ok());
  const Status status = run_row_case(*device, row_case, "device", book);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_GT(book.compared(), 20);
  EXPECT_THAT(book.mismatched(), IsEmpty());
}

// The choices that an answer's rows ask for, in turn; every third row wants its logits.
std::vector<TokenChoice> some_choices() {
  return {{{}, 1},
          {{.temperature = 0.7f}, 2},
          {{.temperature = 1.0f, .top_k = 20, .top_p = 0.9f}, 3},
          {{.temperature = 2.0f, .top_p = 0.5f}, 4},
          {{.temperature = 0.3f, .min_p = 0.1f}, 5}};
}

// The tokens behind a chain's rows: those that the model chose, else choose()'s.
std::vector<TokenId> chosen_tokens(Model& model, std::int64_t& by_model) {
  const std::vector<TokenChoice> choices = some_choices();
  Sequence sequence(model, 64);
  std::vector<Row> rows;
  for (int i = 0; i < 30; ++i) {
    rows.push_back(sequence.add(i * 3, i - 1));
    if (i % 3 > 0) rows.back().choice = &choices[static_cast<std::size_t>(i) % choices.size()];
  }
  PassOutput out;
  EXPECT_TRUE(model.forward(rows, out).ok());
  EXPECT_TRUE(check_logits(rows, out).ok());
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const TokenChoice& by = choices[i % choices.size()];
    const TokenId chosen = out.chosen_of(i);
    by_model += chosen != PassOutput::kNotChosen ? 1 : 0;
    tokens.push_back(chosen != PassOutput::kNotChosen
                         ? chosen
                         : choose(out.row(i), by.sampling, by.seed, static_cast<Position>(i) + 1));
  }
  return tokens;
}

TEST_F(CudaModelTest, TheDeviceChoosesTheCpusTokens) {
  const auto files = wide_model(96, 4, 2, 24);
  std::int64_t on_host = 0;
  const std::vector<TokenId> expected = chosen_tokens(*on_cpu(files, {"int8", "f32"}), on_host);
  EXPECT_EQ(on_host, 0);
  EXPECT_GT(std::set<TokenId>(expected.begin(), expected.end()).size(), 5u);
  for (const int devices : {1, 3}) {
    std::int64_t on_device_itself = 0;
    const auto model = on_device(files, {"int8", "f32"}, 70, kKvBytes, devices);
    EXPECT_EQ(chosen_tokens(*model, on_device_itself), expected) << devices;
    EXPECT_EQ(on_device_itself, 20) << "of the rows that ask for it";
  }
}

TEST_F(CudaModelTest, ARowOfWhichNothingCanBeChosenGivesItsLogits) {
  const std::string path = directory_.path("damaged");
  const auto damaged = [](const TensorSpec& tensor, std::int64_t begin, std::span<float> out) {
    random_tensor(1, tensor, begin, out);
    if (tensor.name == "model.norm.weight") out[0] = std::numeric_limits<float>::quiet_NaN();
  };
  ASSERT_TRUE(write_model(path, small_config("llama"), DType::kF32, damaged).ok());
  const auto model = on_device(*load_model_files(path, {}), {"f32", "f32"}, 3);
  const TokenChoice choice{{.temperature = 1.0f}, 1};
  Sequence sequence(*model, 64);
  std::vector<Row> rows = {sequence.add(1, -1)};
  rows[0].choice = &choice;
  PassOutput out;
  ASSERT_TRUE(model->forward(rows, out).ok());
  EXPECT_EQ(out.chosen_of(0), PassOutput::kNotChosen);
  EXPECT_EQ(check_logits(rows, out).code(), StatusCode::kDataLoss);
}

TEST_F(CudaModelTest, ATapSeesTheCpusHiddenStates) {
  const auto files = small_model(directory_.path(), "llama", DType::kF32, 4);
  const auto run = [](Model& model, RecordingTap& tap) {
    Sequence sequence(model, 64);
    std::vector<Row> rows;
    for (int i = 0; i < 12; ++i) rows.push_back(sequence.add(i * 3, i - 1, i % 2 == 0));
    PassOutput out;
    out.tap = &tap;
    EXPECT_TRUE(model.forward(rows, out).ok());
    return out.logits;
  };
  RecordingTap expected;
  const auto logits = run(*on_cpu(files, {"int8", "f32"}), expected);
  for (std::uint64_t seed = 40; seed < 43; ++seed) {
    RecordingTap got;
    const int devices = seed == 42 ? 2 : 1;
    expect_same_bits(logits, run(*on_device(files, {"int8", "f32"}, seed, kKvBytes, devices), got),
                     "logits");
    ASSERT_EQ(got.seen.size(), 2u);
    for (const auto& [layer, values] : expected.seen) {
      expect_same_bits(values, got.seen[layer], "layer " + std::to_string(layer));
    }
  }
}

// A device that is done before its host looks.
TEST_F(CudaModelTest, AnExitThatWouldDelayThePassesResultsIsNotComputed) {
  const auto files = small_model(directory_.path(), "llama", DType::kF32, 4);
  auto model = *cuda::make_cuda_model(files, cuda::make_host_device({.is_fast = true}),
                                      {.dtype = "int8", .threads = 1, .kv_bytes = kKvBytes});
  Sequence sequence(*model, 64);
  const std::vector<Row> rows = {sequence.add(1, -1), sequence.add(2, 0)};
  RecordingTap tap;
  PassOutput out;
  out.tap = &tap;
  ASSERT_TRUE(model->forward(rows, out).ok());
  EXPECT_EQ(tap.seen.size(), 0u);
  EXPECT_EQ(out.logits.size(), 2u * static_cast<std::size_t>(model->info().vocab_size));
}

TEST_F(CudaModelTest, APassIsTwoUploadsOneGraphAndOneWait) {
  const auto model =
      on_device(small_model(directory_.path(), "llama", DType::kF32), {"int8", "f32"}, 0);
  Sequence sequence(*model, 64);
  PassOutput out;
  ASSERT_TRUE(model->forward(std::vector{sequence.add(1, -1)}, out).ok());
  const cuda::DeviceCounts before = cuda::device_counts(*model);
  ASSERT_TRUE(model->forward(std::vector{sequence.add(2, 0)}, out).ok());
  const cuda::DeviceCounts after = cuda::device_counts(*model);
  EXPECT_EQ(after.launches - before.launches, 0);
  EXPECT_EQ(after.graph_kernels - before.graph_kernels, 0);
  EXPECT_EQ(after.graph_launches - before.graph_launches, 1);
  EXPECT_EQ(after.uploads - before.uploads, 2);
  EXPECT_EQ(after.downloads - before.downloads, 0);
  EXPECT_EQ(after.allocations - before.allocations, 0);
  EXPECT_EQ(after.waits - before.waits, 1);
  EXPECT_LE(before.graph_kernels, 2 * 11 + 2);
}

TEST_F(CudaModelTest, PagesThatAreUsedUpComeBack) {
  const auto files = small_model(directory_.path(), "llama", DType::kF32);
  const ModelInfo info = on_cpu(files, {"f32", "f32"})->info();
  const std::int64_t pages = 3 * KvSlots::pages_for(200) + 1;
  const auto model = on_device(files, {"f32", "f32"}, 0, info.kv_bytes_per_position * 64 * pages);
  EXPECT_EQ(model->info().most_kv_pages, pages - 1);
  PassOutput out;
  std::optional<Sequence> first(std::in_place, *model, 200), second(std::in_place, *model, 200);
  {
    const Sequence third(*model, 200);
    const auto refused = model->new_cache(1);
    EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(refused.status().message(), HasSubstr("fewer sessions"));
    first.reset();
  }
  second.reset();
  EXPECT_TRUE(model->new_cache(500).ok()) << "what is given back is one range again";
}

// Branching rows lie elsewhere until they are committed.
std::vector<float> after_a_branch(Model& model) {
  Sequence sequence(model, 200);
  std::vector<Row> rows;
  for (int i = 0; i < 70; ++i) rows.push_back(sequence.add(i % 50, i - 1));
  PassOutput out;
  EXPECT_TRUE(model.forward(rows, out).ok());
  KvSlots& slots = sequence.cache->slots();
  slots.commit(sequence.slots.back());
  sequence.slots.clear();
  EXPECT_TRUE(
      model.forward(std::vector{sequence.add(1, -1), sequence.add(2, -1), sequence.add(3, 1)}, out)
          .ok());
  slots.commit(sequence.slots[2]);
  EXPECT_EQ(slots.committed(), 72);
  EXPECT_TRUE(model.forward(std::vector{sequence.add(4, -1)}, out).ok());
  return out.logits;
}

TEST_F(CudaModelTest, ACommittedBranchHasTheCpusBits) {
  const auto files = small_model(directory_.path(), "llama", DType::kF32);
  for (const Kind& kind : {Kind{"f32", "f32"}, Kind{"f32", "bf16"}}) {
    const std::vector<float> expected = after_a_branch(*on_cpu(files, kind));
    for (const int devices : {1, 2}) {
      expect_same_bits(expected, after_a_branch(*on_device(files, kind, 9, kKvBytes, devices)),
                       kind.kv_dtype);
    }
  }
}

TEST_F(CudaModelTest, AnAbandonedPassEndsAndTheNextOneIsRight) {
  const auto files = small_model(directory_.path(), "llama", DType::kF32);
  const auto model = on_device(files, {"f32", "f32"}, 5);
  Sequence sequence(*model, 64);
  const Row row = sequence.add(1, -1);
  const std::atomic<bool> gone = true;
  const std::atomic<bool>* const flags[] = {&gone};
  PassOutput out;
  out.abandoned = flags;
  EXPECT_EQ(model->forward(std::vector{row}, out).code(), StatusCode::kCancelled);
  const auto cpu = on_cpu(files, {"f32", "f32"});
  expect_same_bits(mixed_passes(*cpu, 3), mixed_passes(*model, 3), "after it");
}

TEST_F(CudaModelTest, ADeviceWithoutMemoryForTheWeightsIsRefused) {
  const auto files = small_model(directory_.path(), "llama", DType::kF32);
  const Status status =
      cuda::make_cuda_model(files, cuda::make_host_device({.limit = 33 << 20}), {}).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(
      cuda::make_cuda_model(files, cuda::make_host_device(), {.kv_dtype = "f8"}).status().code(),
      StatusCode::kInvalidArgument);
}

// A long context asks for more than there is: keys and values take what is free.
TEST_F(CudaModelTest, KeysAndValuesTakeNoMoreThanIsFree) {
  const auto files = small_model(directory_.path(), "llama", DType::kF32);
  const auto pages = [&](std::int64_t limit, std::int64_t bytes) {
    const auto model =
        cuda::make_cuda_model(files, cuda::make_host_device({.limit = limit}), {.kv_bytes = bytes});
    EXPECT_TRUE(model.ok()) << model.status().to_string();
    return (*model)->info().most_kv_pages;
  };
  EXPECT_GT(pages(256 << 20, std::int64_t{1} << 40), 0);
  EXPECT_EQ(pages(256 << 20, std::int64_t{1} << 40), pages(256 << 20, 0));
}

// A GPU without memory of its own shares the machine's, of which less may be free than it says.
TEST_F(CudaModelTest, AnIntegratedGpusKeysAndValuesTakeNoMoreThanTheMachineHas) {
  const auto files = small_model(directory_.path(), "llama", DType::kF32);
  const auto load = [&](std::int64_t host_free, bool is_integrated) {
    return cuda::make_cuda_model(
        files,
        cuda::make_host_device(
            {.limit = 512 << 20, .is_integrated = is_integrated, .host_free = host_free}),
        {});
  };
  const auto pages = [&](std::int64_t host_free, bool is_integrated) {
    const auto model = load(host_free, is_integrated);
    EXPECT_TRUE(model.ok()) << model.status().to_string();
    return (*model)->info().most_kv_pages;
  };
  const auto of_card = pages(300 << 20, false), of_board = pages(300 << 20, true);
  EXPECT_LT(of_board, of_card / 5) << "44 MiB beside the program's own 256, not 512";
  EXPECT_EQ(pages(0, false), of_card);
  const Status full = load(200 << 20, true).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(full.message(),
              testing::HasSubstr("200 MiB of the machine's, which the GPU shares, are free"));
}

}  // namespace
}  // namespace outrider
