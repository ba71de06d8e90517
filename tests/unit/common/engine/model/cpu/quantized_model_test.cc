// Quantised directories: the weights that their formats mean, kept in panels where those hold them.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/compute_type.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/kernels/panel_writer.h"
#include "common/engine/model/cpu/model_pack.h"
#include "common/engine/model/cpu/model_pack_writer.h"
#include "common/engine/model/cpu/stored_blocks.h"
#include "tests/unit/common/engine/model/chunked_logits.h"
#include "tests/unit/common/engine/model/cpu/reference_transformer.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/format/quantized_directory.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using enum QuantMethod;

// Those that panels hold as they are.
const std::vector<QuantizedKind> kKept = {
    {.name = "awq"},
    {.name = "awq_wide_groups", .group_size = -1, .scale_dtype = DType::kBF16},
    {.name = "awq_experts", .architecture = "qwen3_moe"},
    {.name = "awq_fused", .architecture = "phi3"},
    {.name = "gptq", .method = kGptq, .symmetric = true},
    {.name = "gptq_zeros", .method = kGptq, .group_size = 64},
    {.name = "gptq_format_2", .method = kGptq, .format_2 = true},
    {.name = "gptq_2_bits", .method = kGptq, .bits = 2, .symmetric = true},
    {.name = "gptq_3_bits", .method = kGptq, .bits = 3},
    {.name = "gptq_3_bits_middle",
     .method = kGptq,
     .bits = 3,
     .scale_dtype = DType::kF32,
     .symmetric = true},
    {.name = "gptq_8_bits", .method = kGptq, .bits = 8, .symmetric = true},
    {.name = "gptq_transposed", .architecture = "gpt2", .method = kGptq, .symmetric = true},
};

// Those that are converted.
const std::vector<QuantizedKind> kConverted = {
    {.name = "gptq_order", .method = kGptq, .symmetric = true, .act_order = true},
    {.name = "gptq_small_groups", .method = kGptq, .group_size = 16},
    {.name = "gptq_odd_groups", .method = kGptq, .group_size = 40},
    {.name = "gptq_8_bits_zeros", .method = kGptq, .bits = 8},
    {.name = "awq_f32_scales", .scale_dtype = DType::kF32},
    {.name = "fp8_blocks", .method = kFp8, .scale_dtype = DType::kF32, .strategy = "block"},
    {.name = "fp8_blocks_fused",
     .architecture = "phi3",
     .method = kFp8,
     .scale_dtype = DType::kBF16,
     .strategy = "block"},
    {.name = "fp8_experts",
     .architecture = "mixtral",
     .method = kFp8,
     .scale_dtype = DType::kF32,
     .strategy = "block"},
    {.name = "fp8_tensor", .method = kFp8, .scale_dtype = DType::kF32, .strategy = "tensor"},
    {.name = "fp8_channel",
     .method = kFp8,
     .scale_dtype = DType::kBF16,
     .strategy = "channel",
     .compressed = true},
    {.name = "fp8_compressed_tensor",
     .method = kFp8,
     .scale_dtype = DType::kBF16,
     .strategy = "tensor",
     .compressed = true},
    {.name = "fp8_compressed_blocks",
     .method = kFp8,
     .scale_dtype = DType::kF32,
     .strategy = "block",
     .compressed = true},
};

std::vector<QuantizedKind> all_kinds() {
  std::vector<QuantizedKind> all = kKept;
  all.insert(all.end(), kConverted.begin(), kConverted.end());
  return all;
}

bool is_kept(const QuantizedKind& kind) {
  return std::ranges::any_of(kKept, [&](const auto& one) { return one.name == kind.name; });
}

class QuantizedModelTest : public testing::TestWithParam<QuantizedKind> {
 protected:
  void SetUp() override {
    model_ = random_quantized(GetParam());
    model_.write(directory_.path("quantised"));
    files_ = load("quantised");
    ASSERT_NE(files_, nullptr);
  }

  std::shared_ptr<const ModelFiles> load(const std::string& name) const {
    const auto files = load_model_files(directory_.path(name), {.check_finite = true});
    EXPECT_TRUE(files.ok()) << files.status().to_string();
    return files.ok() ? *files : nullptr;
  }

  static std::vector<float> logits_of(Model& model, std::size_t chunk) {
    return chunked_logits(model, some_tokens(24), chunk);
  }

  std::unique_ptr<Model> model_of(std::shared_ptr<const ModelFiles> files,
                                  const std::string& dtype) {
    notes_.clear();
    auto model = make_cpu_model(
        std::move(files), {.dtype = dtype, .threads = 2, .notice = [this](const std::string& text) {
                             notes_ += text;
                           }});
    EXPECT_TRUE(model.ok()) << model.status().to_string();
    return model.ok() ? *std::move(model) : nullptr;
  }

  TestDirectory directory_;
  QuantizedDirectory model_;
  std::shared_ptr<const ModelFiles> files_;
  std::string notes_;
};

TEST_P(QuantizedModelTest, WeightsAreWhatTheFormatMeans) {
  EXPECT_FALSE(model_.weights.empty());
  for (const auto& [name, expected] : model_.weights) {
    const TensorView& tensor = files_->weights.at(name);
    EXPECT_NE(tensor.quantized, nullptr) << name;
    EXPECT_EQ(widened(tensor), expected) << name;
    // Ranges that begin and end within rows.
    std::vector<float> part(expected.size() / 3 + 5);
    widen(tensor, 11, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + 11)) << name;
  }
}

TEST_P(QuantizedModelTest, LogitsInF32AreTheReferences) {
  model_.write_plain(directory_.path("plain"));
  const auto plain = load("plain");
  ASSERT_NE(plain, nullptr);
  const std::vector<float> logits = logits_of(*model_of(files_, "f32"), 24);
  EXPECT_EQ(notes_, "");
  EXPECT_EQ(logits, logits_of(*model_of(plain, "f32"), 24));
  const auto expected = reference_logits(*plain, some_tokens(24));
  double largest = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::size_t vocab = expected[0].size();
    largest = std::max(largest, std::fabs(logits[i] - expected[i / vocab][i % vocab]));
  }
  EXPECT_LE(largest, 2e-4);
}

TEST_P(QuantizedModelTest, PanelsHoldEveryWeightThatFits) {
  ThreadPool pool(2);
  WeightConverter converter(kernels_for(available_vector_targets().front()), pool);
  for (const auto& [name, expected] : model_.weights) {
    const TensorView& tensor = files_->weights.at(name);
    ASSERT_EQ(stored_format(tensor).has_value(), is_kept(GetParam())) << name;
    if (!is_kept(GetParam())) continue;
    for (const ComputeType type : {ComputeType::kAuto, ComputeType::kInt8}) {
      WeightMatrix matrix = computed_matrix(tensor, type, false);
      ASSERT_EQ(matrix.type, WeightType::kQuantized);
      WeightArena arena;
      const Status converted = converter.convert(tensor, matrix, arena);
      ASSERT_TRUE(converted.ok()) << converted.to_string();
      std::vector<float> values(expected.size());
      for (std::int64_t n = 0; n < matrix.outputs; ++n) {
        read_panel_row(matrix.format, matrix.inputs, static_cast<const std::byte*>(matrix.data), n,
                       values.data() + n * matrix.inputs);
      }
      EXPECT_EQ(values, expected) << name << " " << to_string(type);
    }
  }
}

// Whatever does not fit is said, and computed in bf16 where nothing else is asked for.
TEST_P(QuantizedModelTest, WhatConversionLosesIsSaid) {
  const auto model = model_of(files_, "auto");
  if (is_kept(GetParam())) {
    EXPECT_EQ(notes_, "");
    EXPECT_EQ(model->info().dtype, GetParam().bits == 8 ? "int8" : "int4");
  } else {
    EXPECT_THAT(notes_, HasSubstr("matrices are converted to bf16, which rounds each weight"));
    EXPECT_EQ(model->info().dtype, "bf16");
    EXPECT_EQ(model->info().arithmetic_id, model_of(files_, "bf16")->info().arithmetic_id);
  }
  model_of(files_, "int8");
  EXPECT_EQ(notes_.empty(), is_kept(GetParam())) << notes_;
  model_of(files_, "bf16");
  EXPECT_THAT(notes_, HasSubstr("--dtype f32 keeps them exactly"));
}

TEST_P(QuantizedModelTest, APackGivesTheModelsBitsInAnyChunks) {
  for (const std::string dtype : {"auto", "int8", "int4"}) {
    ThreadPool pool(1);
    const auto weights =
        CpuWeightsLoader(kernels_for(*find_vector_target("auto")), pool, {"", {}}, {})
            .load(files_, *parse_compute_type(dtype));
    ASSERT_TRUE(weights.ok());
    const std::string path = directory_.path(dtype + ".pack");
    ASSERT_TRUE(write_model_pack(path, *weights, {}).ok());
    const auto pack = ModelPack::open(path);
    ASSERT_TRUE(pack.ok()) << pack.status().to_string();
    const CpuWeights packed = *pack->weights();
    const auto model =
        make_cpu_model(*pack->weights(), std::make_unique<ResidentLayers>(packed), {.threads = 1});
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    const auto whole = model_of(files_, dtype);
    const std::vector<float> expected = logits_of(*whole, 24);
    EXPECT_EQ(logits_of(**model, 7), expected) << dtype;
    EXPECT_EQ(logits_of(*whole, 1), expected) << dtype;
    EXPECT_EQ((*model)->info().arithmetic_id, whole->info().arithmetic_id);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, QuantizedModelTest, testing::ValuesIn(all_kinds()),
                         [](const auto& kind) { return kind.param.name; });

using Change = std::function<void(QuantizedDirectory&)>;

// The error of loading such a model with a change.
std::string error_of(const QuantizedKind& kind, const Change& change) {
  const TestDirectory directory;
  QuantizedDirectory model = random_quantized(kind);
  change(model);
  model.write(directory.path());
  return load_model_files(directory.path(), {}).status().message();
}

// The error of a model whose quantization_config has another value of a field.
std::string error_with(const QuantizedKind& kind, const std::string& field, const Json& value) {
  return error_of(kind, [&](QuantizedDirectory& model) {
    model.json["quantization_config"][Json::json_pointer("/" + field)] = value;
  });
}

const QuantizedKind kAwqKind = {.name = "awq"};
const QuantizedKind kGptqKind = {.name = "gptq", .method = kGptq};
const QuantizedKind kFp8Kind = {
    .name = "fp8", .method = kFp8, .scale_dtype = DType::kF32, .strategy = "block"};
const QuantizedKind kCompressedKind = {.name = "compressed",
                                       .method = kFp8,
                                       .scale_dtype = DType::kF32,
                                       .strategy = "channel",
                                       .compressed = true};

TEST(QuantizationConfigTest, OtherMethodsAndVersionsAreRefusedByFieldValueAndRemedy) {
  const std::string error = error_with(kAwqKind, "quant_method", "bitsandbytes");
  EXPECT_THAT(error, HasSubstr("config.json: quantization_config: quant_method is "
                               "\"bitsandbytes\"; supported are awq, gptq, fp8 and "
                               "compressed-tensors. Remedy: "));
  EXPECT_THAT(error_with(kAwqKind, "bits", 3), HasSubstr("bits is 3; supported are 4 for awq"));
  EXPECT_THAT(error_with(kAwqKind, "version", "gemv"), HasSubstr("version is \"gemv\""));
  EXPECT_THAT(error_with(kAwqKind, "format", "gemv"), HasSubstr("format is \"gemv\""));
  EXPECT_THAT(error_with(kAwqKind, "zero_point", false), HasSubstr("zero_point is false"));
  EXPECT_THAT(error_with(kAwqKind, "backend", "llm-awq"), HasSubstr("backend is \"llm-awq\""));
  EXPECT_THAT(error_with(kGptqKind, "bits", 5), HasSubstr("bits is 5; supported are 2, 3, 4"));
  EXPECT_THAT(error_with(kGptqKind, "checkpoint_format", "marlin"),
              HasSubstr("checkpoint_format is \"marlin\""));
  EXPECT_THAT(error_with(kGptqKind, "is_marlin_format", true), HasSubstr("is_marlin_format"));
  EXPECT_THAT(error_with(kGptqKind, "dynamic", {{"+:.*", {{"bits", 8}}}}), HasSubstr("dynamic"));
  EXPECT_THAT(error_with(kGptqKind, "pack_dtype", "int16"), HasSubstr("pack_dtype"));
  EXPECT_THAT(error_with(kFp8Kind, "fmt", "e5m2"), HasSubstr("fmt is \"e5m2\""));
  EXPECT_THAT(error_with(kCompressedKind, "format", "pack-quantized"),
              HasSubstr("format is \"pack-quantized\"; supported is \"float-quantized\""));
  const std::string weights = "config_groups/group_0/weights/";
  EXPECT_THAT(error_with(kCompressedKind, weights + "num_bits", 4), HasSubstr("num_bits is 4"));
  EXPECT_THAT(error_with(kCompressedKind, weights + "type", "int"), HasSubstr("type is \"int\""));
  EXPECT_THAT(error_with(kCompressedKind, weights + "strategy", "group"),
              HasSubstr("strategy is \"group\""));
  EXPECT_THAT(error_with(kCompressedKind, "config_groups/group_1", Json::object()),
              HasSubstr("config_groups is 2 groups"));
  EXPECT_THAT(error_of(kAwqKind, [](auto& model) { model.json["compression_config"] = 1; }),
              HasSubstr("compression_config"));
}

TEST(QuantizationConfigTest, ValuesOutOfRangeAreRefused) {
  for (const Json& size : {Json(0), Json(-2), Json(1 << 21), Json("128")}) {
    EXPECT_THAT(error_with(kGptqKind, "group_size", size), HasSubstr("group_size is")) << size;
  }
  EXPECT_THAT(error_with(kGptqKind, "bits", nullptr), HasSubstr("bits is missing"));
  EXPECT_THAT(error_with(kGptqKind, "desc_act", 1), HasSubstr("desc_act is 1"));
  for (const Json& block :
       {Json({128}), Json(128), Json({0, 128}), Json({128, -1}), Json({1, "a"})}) {
    EXPECT_THAT(error_with(kFp8Kind, "weight_block_size", block), HasSubstr("weight_block_size"))
        << block;
  }
  for (const Json& groups :
       {Json(3), Json::array({1}), Json({{"a", 3}}), Json({{"a", {{"weights", 1}}}})}) {
    EXPECT_THAT(error_with(kCompressedKind, "config_groups", groups), HasSubstr("config_groups"))
        << groups;
  }
  for (const Json& whole : {Json(3), Json::array(), Json("awq"), Json::object()}) {
    EXPECT_THAT(error_of(kAwqKind, [&](auto& model) { model.json["quantization_config"] = whole; }),
                HasSubstr("quantization_config"))
        << whole;
  }
}

const std::string kMatrix = "model.layers.0.self_attn.k_proj";  // [32, 64]

TEST(QuantizedTensorsTest, EachPartIsRequired) {
  for (const char* part : {".qzeros", ".scales"}) {
    EXPECT_THAT(error_of(kAwqKind, [&](auto& model) { model.tensors.erase(kMatrix + part); }),
                HasSubstr(kMatrix + part + " is missing: " + kMatrix + " is quantised by awq"));
  }
  EXPECT_THAT(error_of(kAwqKind, [&](auto& model) { model.tensors.erase(kMatrix + ".qweight"); }),
              HasSubstr("tensor " + kMatrix + ".weight is missing"));
  EXPECT_THAT(
      error_of(kFp8Kind, [&](auto& model) { model.tensors.erase(kMatrix + ".weight_scale_inv"); }),
      HasSubstr(kMatrix + ".weight_scale is missing"));
  QuantizedKind ordered = kGptqKind;
  EXPECT_EQ(error_of(ordered, [&](auto& model) { model.tensors.erase(kMatrix + ".g_idx"); }), "");
  ordered.act_order = true;
  EXPECT_THAT(error_of(ordered, [&](auto& model) { model.tensors.erase(kMatrix + ".g_idx"); }),
              HasSubstr(kMatrix + ".g_idx is missing"));
}

TEST(QuantizedTensorsTest, ShapesAndTypesMustBeThoseOfTheConfig) {
  const auto shape_of = [](const QuantizedKind& kind, const std::string& part,
                           std::vector<std::int64_t> shape) {
    return error_of(kind, [&](auto& model) { model.tensors.at(kMatrix + part).shape = shape; });
  };
  EXPECT_THAT(shape_of(kAwqKind, ".qweight", {32, 8}),
              HasSubstr(kMatrix + ".qweight has shape [32, 8]; config.json with its "
                                  "quantization_config requires [64, 4]"));
  EXPECT_THAT(shape_of(kAwqKind, ".qzeros", {8}), HasSubstr("requires [2, 4]"));
  EXPECT_THAT(shape_of(kAwqKind, ".scales", {32, 2}), HasSubstr("requires [2, 32]"));
  EXPECT_THAT(shape_of(kGptqKind, ".g_idx", {8, 8}), HasSubstr("requires [64]"));
  EXPECT_THAT(shape_of(kFp8Kind, ".weight_scale_inv", {4}), HasSubstr("requires [2, 2]"));
  EXPECT_THAT(shape_of(kFp8Kind, ".weight", {64, 32}), HasSubstr("requires [32, 64]"));
  EXPECT_THAT(error_with(kAwqKind, "group_size", 64), HasSubstr("requires [1, "));
  EXPECT_THAT(error_with(kAwqKind, "group_size", 48), HasSubstr("group_size is 48, which must"));
  EXPECT_THAT(error_with(kGptqKind, "bits", 8), HasSubstr("requires [16, "));
  const auto type_of = [](const QuantizedKind& kind, const std::string& part, DType dtype) {
    return error_of(kind, [&](auto& model) { model.tensors.at(kMatrix + part).dtype = dtype; });
  };
  EXPECT_THAT(type_of(kAwqKind, ".qweight", DType::kF32),
              HasSubstr(kMatrix + ".qweight has dtype F32; supported is I32"));
  EXPECT_THAT(type_of(kFp8Kind, ".weight_scale_inv", DType::kI32), HasSubstr("has dtype I32"));
  EXPECT_THAT(
      error_of(
          kFp8Kind,
          [](auto& model) {
            model.tensors.at("model.norm.weight") = {DType::kF8E4M3, {64}, std::string(64, '1')};
          }),
      HasSubstr("model.norm.weight has dtype F8_E4M3, must be F32, F16 or BF16"));
}

TEST(QuantizedTensorsTest, DamagedNumbersAreRefused) {
  for (const std::int32_t group : {-1, 2, 1 << 30}) {
    EXPECT_THAT(error_of(kGptqKind,
                         [&](auto& model) {
                           std::memcpy(model.tensors.at(kMatrix + ".g_idx").bytes.data() + 20,
                                       &group, 4);
                         }),
                HasSubstr(".g_idx, element 5, is " + std::to_string(group)));
  }
  EXPECT_THAT(error_of(kAwqKind,
                       [](auto& model) {
                         model.tensors.at(kMatrix + ".scales").bytes.replace(70, 2, "\xff\x7f");
                       }),
              HasSubstr("the scale of " + kMatrix + " for output 3, group 1, is nan"));
}

TEST(QuantizedTensorsTest, TheConfigAndTheFilesMustAgree) {
  EXPECT_THAT(error_of(kAwqKind, [](auto& model) { model.json.erase("quantization_config"); }),
              HasSubstr(".qweight is quantised, but not as quantization_config of config.json "
                        "says, which is missing. Remedy: "));
  EXPECT_THAT(error_of(kAwqKind,
                       [](auto& model) {
                         model.json["quantization_config"] = {{"quant_method", "fp8"}};
                       }),
              HasSubstr("which has fp8"));
  EXPECT_THAT(error_with(kFp8Kind, "quant_method", "gptq"), HasSubstr("bits is missing"));
  EXPECT_THAT(error_of(kAwqKind,
                       [](auto& model) {
                         model.tensors[kMatrix + ".weight"] = {
                             DType::kF32, {32, 64}, std::string(32 * 64 * 4, '\0')};
                       }),
              HasSubstr(".weight\" is unknown to a llama model"));
}

// A matrix that is not quantised lies in the files as usual, whatever the config names.
TEST(QuantizedTensorsTest, SomeMatricesMayBePlain) {
  EXPECT_EQ(error_of(kGptqKind,
                     [](auto& model) {
                       for (const char* part : {".qweight", ".qzeros", ".scales", ".g_idx"}) {
                         model.tensors.erase(kMatrix + part);
                       }
                       model.tensors[kMatrix + ".weight"] = {
                           DType::kF16, {32, 64}, std::string(32 * 64 * 2, '\0')};
                     }),
            "");
}

TEST(QuantizedTensorsTest, OnlyABiasOfZerosMayBeTooMany) {
  const auto with_bias = [](char byte) {
    return error_of(kGptqKind, [byte](auto& model) {
      model.tensors[kMatrix + ".bias"] = {DType::kF16, {32}, std::string(64, byte)};
    });
  };
  EXPECT_EQ(with_bias('\0'), "");
  EXPECT_THAT(with_bias('\1'), HasSubstr(".bias\" is unknown to a llama model"));
}

TEST(QuantizedTensorsTest, AnotherScaleOrZeroPointIsAnotherModel) {
  const auto fingerprint_of = [](const Change& change) {
    const TestDirectory directory;
    QuantizedDirectory model = random_quantized(kGptqKind);
    change(model);
    model.write(directory.path());
    const auto files = load_model_files(directory.path(), {});
    EXPECT_TRUE(files.ok()) << files.status().to_string();
    return files.ok() ? (*files)->fingerprint : "";
  };
  const std::string print = fingerprint_of([](auto&) {});
  for (const char* part : {".qweight", ".qzeros", ".scales"}) {
    EXPECT_NE(fingerprint_of([&](auto& model) {
                std::string& bytes = model.tensors.at(kMatrix + part).bytes;
                bytes[8] = static_cast<char>(bytes[8] ^ 1);
              }),
              print)
        << part;
  }
  const std::string format_2 = fingerprint_of(
      [](auto& model) { model.json["quantization_config"]["checkpoint_format"] = "gptq_v2"; });
  EXPECT_NE(format_2, print);
  EXPECT_EQ(fingerprint_of([](auto& model) {
              model.json["quantization_config"].erase("checkpoint_format");
              model.json["quantization_config"]["format"] = "gptq_v2";
            }),
            format_2);
}

}  // namespace
}  // namespace outrider
