// GGUF files against the package gguf and transformers: every tensor type bit for bit, every
// architecture's logits.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "common/base/sha256.h"
#include "common/engine/gguf/gguf_file.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/kernels/panel_writer.h"
#include "common/engine/model/cpu/stored_blocks.h"
#include "common/engine/model/cpu/weight_converter.h"
#include "common/engine/model/format/stored_tensors.h"
#include "tests/golden/model_goldens.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

std::string hash_of(const std::vector<float>& values) {
  Sha256 hash;
  hash.update({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  return hash.finish_hex();
}

// Values in the order of the file, where rows that the model turns in pairs lie interleaved, and
// several of the model's tensors in one.
std::vector<float> values_in_file(const Weights& weights, const StoredTensor& stored) {
  std::vector<float> values;
  for (const TensorSpec& part : stored.parts) {
    TensorView tensor = weights.at(part.name);
    tensor.interleaved = 0;
    const std::vector<float> widened_part = widened(tensor);
    values.insert(values.end(), widened_part.begin(), widened_part.end());
  }
  return values;
}

TEST(GgufGoldenTest, EveryTypesTensorsHaveTheReferencesBits) {
  std::set<std::string> types;
  for (const GgufGolden& golden : load_gguf_goldens()) {
    const auto files = load_model_files(golden.path, {.check_finite = true});
    ASSERT_TRUE(files.ok()) << files.status().to_string();
    std::size_t compared = 0;
    for (const StoredTensor& stored : stored_tensors((*files)->config, FileKind::kGguf)) {
      const TensorView& tensor = (*files)->weights.at(stored.parts.front().name);
      ASSERT_TRUE(golden.tensors.contains(stored.name)) << stored.name;
      const GgufGolden::Tensor& expected = golden.tensors.at(stored.name);
      EXPECT_EQ(to_string(tensor.dtype), expected.type) << golden.path << " " << stored.name;
      EXPECT_EQ(hash_of(values_in_file((*files)->weights, stored)), expected.sha256)
          << golden.path << " " << stored.name;
      types.insert(expected.type);
      ++compared;
    }
    EXPECT_EQ(compared + golden.tensors.count("rope_freqs.weight"), golden.tensors.size());
  }
  EXPECT_THAT(types, ::testing::UnorderedElementsAre("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1",
                                                     "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "Q2_K",
                                                     "Q3_K", "IQ4_NL", "IQ4_XS"));
}

std::unique_ptr<Model> cpu_model(const GgufGolden& golden, const std::string& dtype) {
  const auto files = load_model_files(golden.path, {});
  EXPECT_TRUE(files.ok()) << files.status().to_string();
  auto model = make_cpu_model(*files, {.dtype = dtype, .threads = 2, .progress = {}});
  EXPECT_TRUE(model.ok()) << model.status().to_string();
  return *std::move(model);
}

TEST(GgufGoldenTest, TheCpuBackendComputesWhatTransformersComputes) {
  const std::vector<GgufGolden> goldens = load_gguf_goldens();
  ASSERT_GE(goldens.size(), 10u);
  for (const GgufGolden& golden : goldens) {
    const auto as_stored = cpu_model(golden, "auto");
    EXPECT_LE(distance(*cpu_model(golden, "f32"), golden.model), kGoldenBar) << golden.path;
    if (as_stored->info().dtype != "f32") continue;  // int8 activations: see below
    EXPECT_LE(distance(*as_stored, golden.model), kGoldenBar) << golden.path;
  }
}

TEST(GgufGoldenTest, ConvertedBlocksHaveTheReferencesBits) {
  std::set<std::string> types;
  ThreadPool pool(2);
  WeightConverter converter(kernels_for(available_vector_targets().front()), pool);
  for (const GgufGolden& golden : load_gguf_goldens()) {
    const auto files = load_model_files(golden.path, {});
    ASSERT_TRUE(files.ok()) << files.status().to_string();
    for (const StoredTensor& stored : stored_tensors((*files)->config, FileKind::kGguf)) {
      if (stored.parts.size() > 1) continue;
      TensorView tensor = (*files)->weights.at(stored.parts.front().name);
      if (!stored_format(tensor.dtype)) continue;
      tensor.interleaved = 0;
      WeightMatrix matrix = computed_matrix(tensor, ComputeType::kAuto, false);
      WeightArena arena;
      const Status converted = converter.convert(tensor, matrix, arena);
      ASSERT_TRUE(converted.ok()) << converted.to_string();
      std::vector<float> values(static_cast<std::size_t>(matrix.outputs * matrix.inputs));
      for (std::int64_t n = 0; n < matrix.outputs; ++n) {
        read_panel_row(matrix.format, matrix.inputs, static_cast<const std::byte*>(matrix.data), n,
                       values.data() + n * matrix.inputs);
      }
      EXPECT_EQ(hash_of(values), golden.tensors.at(stored.name).sha256)
          << golden.path << " " << stored.name;
      types.insert(std::string(to_string(tensor.dtype)));
    }
  }
  EXPECT_THAT(
      types, ::testing::UnorderedElementsAre("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K",
                                             "Q6_K", "Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS"));
}

double deviation(const std::vector<float>& logits) {
  double sum = 0, squares = 0;
  for (const float logit : logits) {
    sum += logit;
    squares += double{logit} * logit;
  }
  const auto count = static_cast<double>(logits.size());
  return std::sqrt(squares / count - sum / count * (sum / count));
}

TEST(GgufGoldenTest, CheaperTypesAreNear) {
  for (const GgufGolden& golden : load_gguf_goldens()) {
    for (const std::string dtype : {"bf16", "int8", "auto"}) {
      const auto model = cpu_model(golden, dtype);
      if (dtype != "auto") {
        EXPECT_EQ(model->info().dtype, dtype);
      }
      EXPECT_LE(distance(*model, golden.model), 0.15 * deviation(golden.model.logits))
          << golden.path << " in " << dtype;
    }
  }
}

}  // namespace
}  // namespace outrider
