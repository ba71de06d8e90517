// SPDX-License-Identifier: Apache-2.0
#include "common/model/format/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/model/format/fingerprint.h"
#include "common/model/format/safetensors.h"
#include "common/model/format/safetensors_header.h"
#include "common/model/format/weight_index.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxIndexBytes = 64 << 20;
constexpr const char* kSingleFile = "/model.safetensors";
constexpr const char* kIndexFile = "/model.safetensors.index.json";

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// A path as the system sees it, link loops and unreadable folders included.
bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::symlink_status(path, error).type() !=
         std::filesystem::file_type::not_found;
}

Status no_weights(const std::string& directory) {
  for (const char* pickle : {"/pytorch_model.bin", "/pytorch_model.bin.index.json"}) {
    if (exists(directory + pickle)) {
      return not_found(directory +
                       ": no model.safetensors, only a PyTorch pickle, which may run "
                       "code and is not read; convert it to safetensors");
    }
  }
  return not_found(directory + ": neither model.safetensors nor model.safetensors.index.json");
}

Status missing_in_shard(const std::string& index_path, const std::string& tensor,
                        const std::string& file) {
  return data_loss(index_path + ": tensor " + printable(tensor) + " is not in " + file);
}

// Buffers that old checkpoints carry and that follow from the config.
bool is_derived(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq");
}

bool all_finite(std::span<const float> values, std::size_t& where) {
  for (where = 0; where < values.size(); ++where) {
    if (!std::isfinite(values[where])) return false;
  }
  return true;
}

float read_element(const TensorView& tensor, std::int64_t index) {
  const std::byte* at = tensor.data + static_cast<std::size_t>(index) * dtype_size(tensor.dtype);
  if (tensor.dtype == DType::kF32) {
    float value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return tensor.dtype == DType::kF16 ? from_f16(bits) : from_bf16(bits);
}

Status limit_context(std::optional<Position> max_context, ModelConfig& config) {
  if (!max_context) return {};
  if (*max_context < 1 || *max_context > config.max_positions) {
    return invalid_argument("a context of " + std::to_string(*max_context) +
                            " tokens: must be from 1 to the model's " +
                            std::to_string(config.max_positions) +
                            " (--max-model-len of outrider-server, -c of outrider-edge)");
  }
  config.max_positions = *max_context;
  return {};
}

}  // namespace

void widen(const TensorView& tensor, std::int64_t begin, std::span<float> out) {
  OUTRIDER_CHECK(begin >= 0 &&
                 begin + static_cast<std::int64_t>(out.size()) <= tensor.num_elements());
  for (float& value : out) value = read_element(tensor, begin++);
}

Status Weights::add_file(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::open(path));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<SafetensorsEntry> entries,
                            parse_safetensors(file->bytes(), path));
  for (SafetensorsEntry& entry : entries) {
    TensorView view;
    view.dtype = entry.dtype;
    view.shape = std::move(entry.shape);
    view.data = file->bytes().data() + entry.begin;
    view.num_bytes = static_cast<std::size_t>(entry.end - entry.begin);
    if (!tensors_.emplace(entry.name, std::move(view)).second) {
      return data_loss(path + ": tensor " + printable(entry.name) + " stands in another shard too");
    }
  }
  files_.push_back(std::move(file));
  return {};
}

Status Weights::add_shards(const std::string& directory) {
  const std::string index_path = directory + kIndexFile;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(index_path, kMaxIndexBytes));
  OUTRIDER_ASSIGN_OR_RETURN(const auto index, parse_weight_index(text, index_path));
  std::set<std::string> shards;
  for (const auto& [tensor, file] : index) shards.insert(file);
  for (const std::string& shard : shards) {
    const Status added = add_file(std::filesystem::path(directory) / shard);
    if (!added.ok()) return added.with_context("shard of " + index_path);
  }
  for (const auto& [tensor, file] : index) {
    if (find(tensor) == nullptr) return missing_in_shard(index_path, tensor, file);
  }
  return {};
}

Result<Weights> Weights::open(const std::string& directory) {
  Weights weights;
  if (exists(directory + kSingleFile)) {
    OUTRIDER_RETURN_IF_ERROR(weights.add_file(directory + kSingleFile));
  } else if (exists(directory + kIndexFile)) {
    OUTRIDER_RETURN_IF_ERROR(weights.add_shards(directory));
  } else {
    return no_weights(directory);
  }
  return weights;
}

const TensorView* Weights::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const TensorView& Weights::at(std::string_view name) const {
  const TensorView* tensor = find(name);
  OUTRIDER_CHECK(tensor != nullptr);
  return *tensor;
}

std::int64_t Weights::num_bytes() const {
  std::int64_t sum = 0;
  for (const auto& [name, tensor] : tensors_) sum += static_cast<std::int64_t>(tensor.num_bytes);
  return sum;
}

Status Weights::check_shapes(const ModelConfig& config) const {
  std::set<std::string, std::less<>> known;
  for (const TensorSpec& spec : expected_tensors(config)) {
    const TensorView* tensor = find(spec.name);
    if (tensor == nullptr) {
      return data_loss("tensor " + spec.name + " is missing; config.json asks for it with shape " +
                       shape_text(spec.shape));
    }
    if (tensor->shape != spec.shape) {
      return data_loss("tensor " + spec.name + " has shape " + shape_text(tensor->shape) +
                       ", config.json asks for " + shape_text(spec.shape));
    }
    known.insert(spec.name);
  }
  for (const auto& [name, tensor] : tensors_) {
    if (known.contains(name) || is_derived(name)) continue;
    if (name == "lm_head.weight") {
      OUTRIDER_RETURN_IF_ERROR(check_tied(tensor));
      continue;
    }
    return data_loss("tensor " + printable(name) + " is unknown to a " + config.architecture +
                     " model of this config.json; without it the output would be another's");
  }
  return {};
}

Status Weights::check_tied(const TensorView& head) const {
  const TensorView& embedding = at("model.embed_tokens.weight");
  if (head.dtype == embedding.dtype && head.shape == embedding.shape &&
      std::memcmp(head.data, embedding.data, head.num_bytes) == 0) {
    return {};
  }
  return data_loss(
      "tensor lm_head.weight differs from model.embed_tokens.weight, but config.json says "
      "tie_word_embeddings; set it to false if the model has its own output matrix");
}

Status Weights::check_finite() const {
  constexpr std::int64_t kBlock = 4096;
  std::vector<float> block(kBlock);
  for (const auto& [name, tensor] : tensors_) {
    for (std::int64_t begin = 0; begin < tensor.num_elements(); begin += kBlock) {
      const std::int64_t count = std::min(kBlock, tensor.num_elements() - begin);
      const std::span<float> part(block.data(), static_cast<std::size_t>(count));
      widen(tensor, begin, part);
      std::size_t where = 0;
      if (all_finite(part, where)) continue;
      return data_loss("tensor " + name + ", element " +
                       std::to_string(begin + static_cast<std::int64_t>(where)) + ", is " +
                       (std::isnan(part[where]) ? "NaN" : "infinite") +
                       "; the weights are damaged");
    }
  }
  return {};
}

Status Weights::check_unchanged() const {
  for (const auto& file : files_) OUTRIDER_RETURN_IF_ERROR(file->check_unchanged());
  return {};
}

Result<std::shared_ptr<const ModelFiles>> load_model_files(const std::string& directory,
                                                           const ModelFilesOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(ModelConfig config, load_config(directory));
  OUTRIDER_ASSIGN_OR_RETURN(Weights weights, Weights::open(directory));
  const Status shapes = weights.check_shapes(config);
  if (!shapes.ok()) return shapes.with_context(directory);
  if (options.check_finite) {
    const Status finite = weights.check_finite();
    if (!finite.ok()) return finite.with_context(directory);
  }
  std::string fingerprint = model_fingerprint(config, weights);
  OUTRIDER_RETURN_IF_ERROR(limit_context(options.max_context, config));
  if (options.ignore_eos) config.stop_ids.clear();
  std::filesystem::path path(directory);
  if (!path.has_filename()) path = path.parent_path();  // a slash at the end
  return std::make_shared<const ModelFiles>(ModelFiles{path.filename().string(), std::move(config),
                                                       std::move(weights), std::move(fingerprint)});
}

}  // namespace outrider
