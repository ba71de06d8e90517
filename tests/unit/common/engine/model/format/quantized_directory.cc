// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/common/engine/model/format/quantized_directory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <span>

#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/model_writer.h"
#include "common/engine/model/format/safetensors_writer.h"
#include "common/engine/model/format/stored_tensors.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"

namespace outrider {
namespace {

constexpr std::int64_t kBlockRows = 24, kBlockColumns = 40;  // divide none of the sizes
constexpr int kAwqOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};

ModelConfig config_of(const std::string& architecture) {
  ModelConfig config = small_config(architecture);
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.num_heads = 4;
  config.num_kv_heads = architecture == "gpt2" ? 4 : 2;
  config.head_dim = 16;
  config.rotated_dim = 0;
  config.max_positions = 128;
  if (config.position_rows > 0) config.position_rows = 128;
  if (config.experts.count > 0) config.experts.inner_size = 96;
  return config;
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A number as the type keeps it, and its bytes.
std::string stored_number(double value, DType dtype, double& kept) {
  if (dtype == DType::kF32) {
    const auto single = static_cast<float>(value);
    kept = single;
    return bytes_of(std::vector<float>{single});
  }
  const auto single = static_cast<float>(value);
  const std::uint16_t half = dtype == DType::kF16 ? to_f16(single) : to_bf16(single);
  kept = dtype == DType::kF16 ? from_f16(half) : from_bf16(half);
  return bytes_of(std::vector<std::uint16_t>{half});
}

// Adds `bits` of value from bit `at` on, bit by bit.
void set_bits(std::vector<std::uint32_t>& words, std::size_t first, std::size_t stride,
              std::size_t at, int bits, unsigned value) {
  for (int b = 0; b < bits; ++b, ++at) {
    if ((value >> b & 1) != 0) words[first + at / 32 * stride] |= 1U << (at % 32);
  }
}

class Writer final {
 public:
  Writer(const QuantizedKind& kind, QuantizedDirectory& out) : kind_(kind), out_(out) {}

  void add(const StoredTensor& stored) {
    base_ = stored.name.substr(0, stored.name.size() - std::string(".weight").size());
    inputs_ = static_cast<std::size_t>(stored.parts.front().shape[1]);
    outputs_ = static_cast<std::size_t>(stored.shape[stored.transposed ? 1 : 0]);
    const std::vector<float> values =
        kind_.method == QuantMethod::kFp8 ? add_fp8() : add_integers();
    std::vector<float>& plain = out_.plain[stored.name] = values;
    for (std::size_t n = 0; stored.transposed && n < outputs_; ++n) {
      for (std::size_t k = 0; k < inputs_; ++k) plain[k * outputs_ + n] = values[n * inputs_ + k];
    }
    std::size_t at = 0;
    for (const TensorSpec& part : stored.parts) {
      const std::size_t count = static_cast<std::size_t>(part.shape[0]) * inputs_;
      out_.weights[part.name].assign(values.begin() + static_cast<std::ptrdiff_t>(at),
                                     values.begin() + static_cast<std::ptrdiff_t>(at + count));
      at += count;
    }
  }

 private:
  void put(const std::string& suffix, DType dtype, std::vector<std::size_t> shape,
           std::string bytes) {
    out_.tensors[base_ + suffix] = {dtype, {shape.begin(), shape.end()}, std::move(bytes)};
  }
  unsigned random(unsigned below) { return generator_() % below; }

  std::vector<float> add_integers() {
    const auto bits = static_cast<std::size_t>(kind_.bits);
    const std::size_t size =
        kind_.group_size < 0 ? inputs_ : static_cast<std::size_t>(kind_.group_size);
    const std::size_t groups = (inputs_ + size - 1) / size;
    const unsigned range = 1U << kind_.bits;
    std::vector<std::size_t> group_of(inputs_);
    for (std::size_t k = 0; k < inputs_; ++k) group_of[k] = k / size;
    if (kind_.act_order) std::shuffle(group_of.begin(), group_of.end(), generator_);
    // [groups, outputs]
    std::vector<unsigned> zeros(groups * outputs_);
    std::vector<double> scales(zeros.size());
    std::string scale_bytes;
    for (std::size_t i = 0; i < zeros.size(); ++i) {
      zeros[i] = kind_.symmetric ? range / 2 : random(range);
      const double scale = (0.5 + random(1000) / 1000.0) * 2 / range / std::sqrt(inputs_);
      scale_bytes += stored_number(random(8) == 0 ? -scale : scale, kind_.scale_dtype, scales[i]);
    }
    std::vector<unsigned> integers(outputs_ * inputs_);
    std::vector<float> values(integers.size());
    for (std::size_t n = 0; n < outputs_; ++n) {
      for (std::size_t k = 0; k < inputs_; ++k) {
        const std::size_t group = group_of[k] * outputs_ + n;
        const unsigned integer = integers[n * inputs_ + k] = random(range);
        values[n * inputs_ + k] = static_cast<float>(
            scales[group] * (static_cast<double>(integer) - static_cast<double>(zeros[group])));
      }
    }
    put(".scales", kind_.scale_dtype, {groups, outputs_}, scale_bytes);
    std::vector<std::uint32_t> words(inputs_ * outputs_ * bits / 32),
        zero_words(groups * outputs_ * bits / 32);
    if (kind_.method == QuantMethod::kAwq) {
      pack_awq(
          inputs_, [&](std::size_t k, std::size_t n) { return integers[n * inputs_ + k]; }, words);
      pack_awq(
          groups, [&](std::size_t g, std::size_t n) { return zeros[g * outputs_ + n]; },
          zero_words);
      put(".qweight", DType::kI32, {inputs_, outputs_ / 8}, bytes_of(words));
    } else {
      for (std::size_t n = 0; n < outputs_; ++n) {
        for (std::size_t k = 0; k < inputs_; ++k) {
          set_bits(words, n, outputs_, k * bits, kind_.bits, integers[n * inputs_ + k]);
        }
        for (std::size_t g = 0; g < groups; ++g) {
          const unsigned zero = zeros[g * outputs_ + n];
          set_bits(zero_words, g * outputs_ * bits / 32, 1, n * bits, kind_.bits,
                   kind_.format_2 ? zero : (zero + range - 1) % range);
        }
      }
      put(".qweight", DType::kI32, {inputs_ * bits / 32, outputs_}, bytes_of(words));
      put(".g_idx", DType::kI32, {inputs_},
          bytes_of(std::vector<std::int32_t>(group_of.begin(), group_of.end())));
    }
    put(".qzeros", DType::kI32, {groups, outputs_ * bits / 32}, bytes_of(zero_words));
    return values;
  }

  template <class At>
  void pack_awq(std::size_t rows, const At& at, std::vector<std::uint32_t>& words) const {
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t word = 0; word < outputs_ / 8; ++word) {
        for (std::size_t i = 0; i < 8; ++i) {
          words[row * (outputs_ / 8) + word] |=
              at(row, word * 8 + static_cast<std::size_t>(kAwqOrder[i])) << (4 * i);
        }
      }
    }
  }

  std::vector<float> add_fp8() {
    const bool block = kind_.strategy == "block", channel = kind_.strategy == "channel";
    const std::size_t rows = block ? kBlockRows : channel ? 1 : outputs_;
    const std::size_t columns = block ? kBlockColumns : inputs_;
    const std::size_t across = (inputs_ + columns - 1) / columns;
    std::vector<double> scales((outputs_ + rows - 1) / rows * across);
    std::string scale_bytes;
    for (double& scale : scales) {
      scale_bytes += stored_number((1 + random(1000) / 1000.0) / 100 / std::sqrt(inputs_),
                                   kind_.scale_dtype, scale);
    }
    std::string numbers(outputs_ * inputs_, '\0');
    std::vector<float> values(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      unsigned bits = random(256);
      if ((bits & 127) == 127) bits -= 1;
      numbers[i] = static_cast<char>(bits);
      const int exponent = bits >> 3 & 15;
      const double fraction = (bits & 7) / 8.0;
      const double magnitude =
          exponent == 0 ? std::ldexp(fraction, -6) : std::ldexp(1 + fraction, exponent - 7);
      const std::size_t at = i / inputs_ / rows * across + i % inputs_ / columns;
      values[i] = static_cast<float>(scales[at] * (bits > 127 ? -magnitude : magnitude));
    }
    put(".weight", DType::kF8E4M3, {outputs_, inputs_}, numbers);
    const std::vector<std::size_t> shape = block     ? std::vector{scales.size() / across, across}
                                           : channel ? std::vector<std::size_t>{outputs_, 1}
                                           : kind_.compressed ? std::vector<std::size_t>{1}
                                                              : std::vector<std::size_t>{};
    put(block && !kind_.compressed ? ".weight_scale_inv" : ".weight_scale", kind_.scale_dtype,
        shape, scale_bytes);
    if (kind_.strategy == "tensor") {
      put(".input_scale", DType::kF32, {}, bytes_of(std::vector<float>{0.5f}));
    }
    return values;
  }

  const QuantizedKind& kind_;
  QuantizedDirectory& out_;
  std::mt19937 generator_{11};
  std::string base_;
  std::size_t inputs_ = 0, outputs_ = 0;
};

Json quantization_json(const QuantizedKind& kind) {
  Json json;
  if (kind.method == QuantMethod::kAwq) {
    return {{"quant_method", "awq"}, {"bits", kind.bits},  {"group_size", kind.group_size},
            {"version", "gemm"},     {"zero_point", true}, {"modules_to_not_convert", nullptr}};
  }
  if (kind.method == QuantMethod::kGptq) {
    return {
        {"quant_method", "gptq"},        {"bits", kind.bits},
        {"group_size", kind.group_size}, {"desc_act", kind.act_order},
        {"sym", kind.symmetric},         {"checkpoint_format", kind.format_2 ? "gptq_v2" : "gptq"}};
  }
  const Json block = {kBlockRows, kBlockColumns};
  if (!kind.compressed) {
    json = {{"quant_method", "fp8"},
            {"activation_scheme", "dynamic"},
            {"modules_to_not_convert", {"lm_head"}}};
    if (kind.strategy == "block") json["weight_block_size"] = block;
    return json;
  }
  Json weights = {{"num_bits", 8}, {"type", "float"}, {"strategy", kind.strategy}};
  if (kind.strategy == "block") weights["block_structure"] = block;
  return {{"quant_method", "compressed-tensors"},
          {"format", "float-quantized"},
          {"quantization_status", "compressed"},
          {"ignore", {"lm_head"}},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
}

bool is_quantized(const StoredTensor& stored) {
  const TensorSpec& part = stored.parts.front();
  return part.shape.size() == 2 && is_in_layer(part.part) && part.part != ModelPart::kRouter;
}

}  // namespace

QuantizedDirectory random_quantized(const QuantizedKind& kind) {
  QuantizedDirectory out;
  out.config = config_of(kind.architecture);
  out.json = config_to_json(out.config, "float16");
  out.json["quantization_config"] = quantization_json(kind);
  Writer writer(kind, out);
  for (const StoredTensor& stored : stored_tensors(out.config, FileKind::kDirectory)) {
    if (is_quantized(stored)) {
      writer.add(stored);
      continue;
    }
    std::vector<float> values;
    for (const TensorSpec& part : stored.parts) {
      std::int64_t elements = 1;
      for (const std::int64_t size : part.shape) elements *= size;
      std::vector<float> one(static_cast<std::size_t>(elements));
      random_tensor(7, part, 0, one);
      values.insert(values.end(), one.begin(), one.end());
    }
    out.tensors[stored.name] = {DType::kF32, stored.shape, bytes_of(values)};
    out.plain[stored.name] = std::move(values);
  }
  return out;
}

void QuantizedDirectory::write(const std::string& directory) const {
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/config.json") << json.dump();
  std::vector<TensorBytes> parts;
  for (const auto& [name, tensor] : tensors) {
    parts.push_back({{name, tensor.dtype, tensor.shape}, std::as_bytes(std::span(tensor.bytes))});
  }
  const Status written = write_safetensors(directory + "/model.safetensors", std::move(parts));
  EXPECT_TRUE(written.ok()) << written.to_string();
}

void QuantizedDirectory::write_plain(const std::string& directory) const {
  const TensorSource source = [this](const TensorSpec& spec, std::int64_t begin,
                                     std::span<float> values) {
    std::copy_n(plain.at(spec.name).begin() + begin, values.size(), values.begin());
  };
  const Status written = write_model(directory, config, DType::kF32, source);
  EXPECT_TRUE(written.ok()) << written.to_string();
}

}  // namespace outrider
