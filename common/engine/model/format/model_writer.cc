// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/model_writer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "common/base/output_file.h"
#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/safetensors_writer.h"
#include "common/engine/model/format/stored_tensors.h"

namespace outrider {
namespace {

constexpr OutputKind kConfigFile{
    .name = "a config that Outrider wrote",
    .is_earlier = [](std::string_view content) { return content.starts_with(kConfigMark); }};

Status write_json(const std::string& path, const Json& json) {
  return write_output(path, kConfigFile, std::string(kConfigMark) + json.dump(2).substr(1) + "\n");
}

// The file's tensors in the form of the model's, which is what a TensorSource fills.
std::vector<TensorSpec> file_tensors(const ModelConfig& config) {
  std::vector<TensorSpec> specs;
  for (StoredTensor& stored : stored_tensors(config, FileKind::kDirectory)) {
    TensorSpec spec = std::move(stored.parts.front());
    spec.name = std::move(stored.name);
    spec.shape = std::move(stored.shape);
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::int64_t num_elements(const TensorSpec& spec) {
  std::int64_t product = 1;
  for (const std::int64_t size : spec.shape) product *= size;
  return product;
}

std::span<const std::byte> narrow(std::span<const float> values, DType dtype,
                                  std::vector<std::uint16_t>& halves) {
  if (dtype == DType::kF32) return std::as_bytes(values);
  halves.resize(values.size());
  std::transform(values.begin(), values.end(), halves.begin(),
                 dtype == DType::kF16 ? to_f16 : to_bf16);
  return std::as_bytes(std::span(halves));
}

Status write_weights(const std::string& path, const ModelConfig& config, DType dtype,
                     const TensorSource& source) {
  constexpr std::int64_t kBlock = 1 << 16;
  const std::vector<TensorSpec> specs = file_tensors(config);
  std::vector<TensorHeader> headers;
  headers.reserve(specs.size());
  for (const TensorSpec& spec : specs) headers.push_back({spec.name, dtype, spec.shape});
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                            SafetensorsWriter::create(path, headers));
  std::vector<float> block(kBlock);
  std::vector<std::uint16_t> halves;
  for (const TensorSpec& spec : specs) {
    const std::int64_t size = num_elements(spec);
    for (std::int64_t begin = 0; begin < size; begin += kBlock) {
      const std::span<float> part =
          std::span(block).first(static_cast<std::size_t>(std::min(kBlock, size - begin)));
      source(spec, begin, part);
      OUTRIDER_RETURN_IF_ERROR(writer->append(narrow(part, dtype, halves)));
    }
  }
  return writer->finish();
}

// FNV-1a over the name: the same in any language, unlike std::hash.
std::uint64_t name_hash(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// SplitMix64 (Steele, Lea and Flood 2014), the output function.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Status write_config(const std::string& directory, const ModelConfig& config,
                    const std::string& dtype) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return invalid_argument(directory + ": " + error.message());
  return write_json(directory + "/config.json", config_to_json(config, dtype));
}

Status write_model(const std::string& directory, const ModelConfig& config, DType dtype,
                   const TensorSource& source) {
  const std::string weights = directory + "/model.safetensors";
  OUTRIDER_RETURN_IF_ERROR(write_config(directory, config, std::string(config_name(dtype))));
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(weights, kSafetensorsFile));
  const Json json = config_to_json(config, std::string(config_name(dtype)));
  OUTRIDER_RETURN_IF_ERROR(
      write_json(directory + "/generation_config.json", {{"eos_token_id", json["eos_token_id"]}}));
  return write_weights(weights, config, dtype, source);
}

void random_tensor(std::uint64_t seed, const TensorSpec& tensor, std::int64_t begin,
                   std::span<float> out) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  const bool norm = tensor.name.ends_with("norm.weight");
  const bool matrix = tensor.shape.size() == 2 && tensor.name != weight_name(ModelPart::kEmbedding);
  double scale = norm || tensor.name.ends_with(".bias") ? 0.5 : 1.0;
  // A uniform variable on [-s, s] has variance s^2 / 3.
  if (matrix) scale = std::sqrt(3.0 / static_cast<double>(tensor.shape[1]));
  const std::uint64_t stream = mix(name_hash(tensor.name) + seed * kGolden);
  for (float& value : out) {
    const std::uint64_t bits = mix(stream + static_cast<std::uint64_t>(++begin) * kGolden) >> 40;
    const double centred = static_cast<double>(bits) * 0x1p-23 - 1.0;
    value = static_cast<float>((norm ? 1.0 : 0.0) + centred * scale);
  }
}

}  // namespace outrider
