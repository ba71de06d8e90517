// GGUF files against the package gguf and transformers: every tensor type bit for bit, every
// architecture's logits.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "common/base/sha256.h"
#include "common/gguf/gguf_file.h"
#include "common/model/cpu/cpu_model.h"
#include "tests/golden/model_goldens.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

std::string hash_of(const std::vector<float>& values) {
  Sha256 hash;
  hash.update({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  return hash.finish_hex();
}

// Values in the order of the file, where rows that the model turns in pairs lie interleaved.
std::vector<float> values_in_file(TensorView tensor) {
  tensor.interleaved = 0;
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
  widen(tensor, 0, values);
  return values;
}

TEST(GgufGoldenTest, EveryTypesTensorsHaveTheReferencesBits) {
  std::set<std::string> types;
  for (const GgufGolden& golden : load_gguf_goldens()) {
    const auto files = load_model_files(golden.path, {.check_finite = true});
    ASSERT_TRUE(files.ok()) << files.status().to_string();
    std::size_t compared = 0;
    for (const TensorSpec& spec : expected_tensors((*files)->config)) {
      const TensorView& tensor = (*files)->weights.at(spec.name);
      ASSERT_TRUE(golden.tensors.contains(spec.gguf_name)) << spec.gguf_name;
      const GgufGolden::Tensor& expected = golden.tensors.at(spec.gguf_name);
      EXPECT_EQ(to_string(tensor.dtype), expected.type) << golden.path << " " << spec.gguf_name;
      EXPECT_EQ(hash_of(values_in_file(tensor)), expected.sha256)
          << golden.path << " " << spec.gguf_name;
      types.insert(expected.type);
      ++compared;
    }
    EXPECT_EQ(compared + golden.tensors.count("rope_freqs.weight"), golden.tensors.size());
  }
  EXPECT_THAT(types, ::testing::UnorderedElementsAre("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1",
                                                     "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"));
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
  ASSERT_GE(goldens.size(), 8u);
  for (const GgufGolden& golden : goldens) {
    for (const char* dtype : {"f32", "auto"}) {
      EXPECT_LE(distance(*cpu_model(golden, dtype), golden.model), kGoldenBar)
          << golden.path << " in " << dtype;
    }
  }
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
    for (const char* dtype : {"bf16", "int8"}) {
      const auto model = cpu_model(golden, dtype);
      EXPECT_EQ(model->info().dtype, dtype);
      EXPECT_LE(distance(*model, golden.model), 0.15 * deviation(golden.model.logits))
          << golden.path << " in " << dtype;
    }
  }
}

}  // namespace
}  // namespace outrider
