// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/engine/gguf/find_gguf.h"
#include "common/engine/model/format/gguf_config.h"
#include "common/engine/model/format/quantized_tensors.h"
#include "common/engine/model/format/safetensors.h"
#include "common/engine/model/format/stored_tensors.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxIndexBytes = 64 << 20;
constexpr const char* kSingleFile = "/model.safetensors";
constexpr const char* kIndexFile = "/model.safetensors.index.json";

// Whether the path exists, also if it is a link loop or not readable.
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
  return not_found(directory + ": neither model.safetensors nor model.safetensors.index.json" +
                   remedy_without_model(directory));
}

Status missing_in_shard(const std::string& index_path, const std::string& tensor,
                        const std::string& file) {
  return data_loss(index_path + ": tensor " + printable(tensor) + " is not in " + file);
}

// Buffers of old checkpoints that can be derived from the config; GPT-2's are the causal mask.
bool is_derived(std::string_view name, const ModelConfig& config) {
  return name.ends_with(".rotary_emb.inv_freq") ||
         (config.architecture == "gpt2" &&
          (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")));
}

// The model's tensors in one of the directory's, which is removed from `left`.
Result<std::vector<std::pair<std::string, TensorView>>> take_tensor(const StoredTensor& stored,
                                                                    const ModelConfig& config,
                                                                    TensorMap& left) {
  const ModelFamily& family = family_of(config);
  std::vector<std::string> names{stored.name};
  if (family.body_is_optional && stored.name.starts_with(family.body)) {
    names.push_back(stored.name.substr(std::string_view(family.body).size()));
  }
  for (const std::string& name : names) {
    OUTRIDER_ASSIGN_OR_RETURN(auto parts, take_quantized(stored, name, config.quantization, left));
    if (!parts.empty()) return parts;
    const auto found = left.find(name);
    if (found == left.end()) continue;
    const TensorView& tensor = found->second;
    if (tensor.shape != stored.shape) {
      return data_loss("tensor " + stored.name + " has shape " + shape_text(tensor.shape) +
                       ", config.json requires " + shape_text(stored.shape));
    }
    if (needs_scales(tensor.dtype)) {
      return data_loss("tensor " + stored.name + " has dtype " +
                       std::string(to_string(tensor.dtype)) + ", must be F32, F16 or BF16");
    }
    parts = split(stored, tensor);
    left.erase(found);
    return parts;
  }
  return data_loss("tensor " + stored.name + " is missing; config.json requires it with shape " +
                   shape_text(stored.shape));
}

bool all_finite(std::span<const float> values, std::size_t& where) {
  for (where = 0; where < values.size(); ++where) {
    if (!std::isfinite(values[where])) return false;
  }
  return true;
}

TensorView view_of(const GgufTensor& tensor) {
  return {.dtype = dtype_of(tensor.type),
          .shape = tensor.shape,
          .data = tensor.data.data(),
          .num_bytes = tensor.data.size()};
}

using UnitRows = std::shared_ptr<const std::vector<std::int32_t>>;

// The rows of units of `size` rows each, in that order; null: as stored.
UnitRows rows_of(const std::vector<std::int32_t>& units, std::int64_t size) {
  if (std::ranges::is_sorted(units)) return nullptr;
  std::vector<std::int32_t> rows;
  for (const std::int32_t unit : units) {
    for (std::int64_t i = 0; i < size; ++i) {
      rows.push_back(static_cast<std::int32_t>(unit * size + i));
    }
  }
  return std::make_shared<const std::vector<std::int32_t>>(std::move(rows));
}

}  // namespace

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
      return data_loss(path + ": tensor " + printable(entry.name) + " is in another shard too");
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

Weights Weights::from_views(std::unique_ptr<MappedFile> file, TensorMap tensors) {
  Weights weights;
  if (file != nullptr) weights.files_.push_back(std::move(file));  // else the caller keeps it
  weights.tensors_ = std::move(tensors);
  return weights;
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

Result<Weights> Weights::from_gguf(GgufFile file, const ModelConfig& config) {
  Weights weights;
  const std::string what = file.metadata().what() + ": tensor ";
  std::map<std::string_view, const GgufTensor*> unused;
  for (const GgufTensor& tensor : file.tensors()) unused.emplace(tensor.name, &tensor);
  for (const StoredTensor& stored : stored_tensors(config, FileKind::kGguf)) {
    const auto found = unused.find(stored.name);
    if (found == unused.end()) return data_loss(what + stored.name + " is missing");
    const GgufTensor& tensor = *found->second;
    if (tensor.shape != stored.shape) {
      return data_loss(what + tensor.name + " has shape " + shape_text(tensor.shape) +
                       ", the file's keys require " + shape_text(stored.shape));
    }
    for (auto& [name, view] : split(stored, view_of(tensor))) {
      weights.tensors_.emplace(name, std::move(view));
    }
    unused.erase(found);
  }
  // Parts of the config.
  for (const auto name : {kGgufRopeFactors, kGgufShortFactors, kGgufLongFactors}) {
    unused.erase(name);
  }
  if (!unused.empty()) {
    return data_loss(what + printable(unused.begin()->first) + " is unknown to a " +
                     config.architecture + " model; without it the output would be another's");
  }
  weights.gguf_ = std::move(file);
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

Status Weights::arrange(const ModelConfig& config) {
  TensorMap left = std::move(tensors_);
  tensors_.clear();
  for (const StoredTensor& stored : stored_tensors(config, FileKind::kDirectory)) {
    OUTRIDER_ASSIGN_OR_RETURN(auto parts, take_tensor(stored, config, left));
    for (auto& [name, view] : parts) tensors_.emplace(name, std::move(view));
  }
  return take_leftovers(config, left);
}

Status Weights::take_leftovers(const ModelConfig& config, const TensorMap& left) const {
  for (const auto& [name, tensor] : left) {
    if (is_derived(name, config) || is_without_effect(name, tensor, config.quantization)) continue;
    if (name == weight_name(ModelPart::kHead)) {
      OUTRIDER_RETURN_IF_ERROR(check_tied(tensor));
      continue;
    }
    return data_loss("tensor " + printable(name) + " is unknown to a " + config.architecture +
                     " model of this config.json; without it the output would be another's");
  }
  return {};
}

Status Weights::check_tied(const TensorView& head) const {
  const TensorView& embedding = at(weight_name(ModelPart::kEmbedding));
  if (head.dtype == embedding.dtype && head.shape == embedding.shape &&
      std::memcmp(head.data, embedding.data, head.num_bytes) == 0) {
    return {};
  }
  return data_loss(
      "tensor lm_head.weight differs from model.embed_tokens.weight, but config.json says "
      "tie_word_embeddings; set it to false if the model has its own output matrix");
}

void Weights::reorder(const ModelConfig& config, std::span<const LayerOrder> order) {
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    reorder_layer(config, layer, order[static_cast<std::size_t>(layer)]);
  }
}

void Weights::reorder_layer(const ModelConfig& config, std::int32_t layer,
                            const LayerOrder& order) {
  const auto move_rows = [&](ModelPart part, const UnitRows& rows) {
    for (const std::string& name : {weight_name(part, layer), bias_name(part, layer)}) {
      const auto found = tensors_.find(name);
      if (found != tensors_.end()) found->second.row_order = rows;
    }
  };
  const auto move_columns = [&](ModelPart part, const UnitRows& columns) {
    tensors_.find(weight_name(part, layer))->second.column_order = columns;
  };
  if (const UnitRows neurons = rows_of(order.neurons, 1)) {
    move_rows(ModelPart::kGate, neurons);
    move_rows(ModelPart::kUp, neurons);
    move_columns(ModelPart::kDown, neurons);
  }
  if (const UnitRows heads = rows_of(order.kv_groups, config.head_dim)) {
    const UnitRows queries = rows_of(order.kv_groups, group_columns(config));
    move_rows(ModelPart::kQuery, queries);
    move_rows(ModelPart::kKey, heads);
    move_rows(ModelPart::kValue, heads);
    move_columns(ModelPart::kAttentionOutput, queries);
  }
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

Status Weights::read_row(const TensorView& matrix, std::int64_t index, std::span<float> out) const {
  const MappedFile* file = file_with(files_, matrix.data);
  if (file == nullptr && gguf_) file = gguf_->part_with(matrix.data);
  const bool has_rows = matrix.transposed == 0 && matrix.quantized == nullptr &&
                        matrix.added == 0.0f && matrix.column_order == nullptr;
  if (file == nullptr || !has_rows) {
    widen(matrix, index * std::ssize(out), out);
    return {};
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(matrix.row_bytes()));
  OUTRIDER_RETURN_IF_ERROR(file->copy({matrix.row(index), bytes.size()}, bytes.data()));
  widen({.dtype = matrix.dtype,
         .shape = {std::ssize(out)},
         .data = bytes.data(),
         .num_bytes = bytes.size()},
        0, out);
  return {};
}

void Weights::forget_pages() const {
  for (const auto& file : files_) outrider::forget_pages(file->bytes());
  if (gguf_) gguf_->forget_pages();
}

Status Weights::check_unchanged() const {
  for (const auto& file : files_) OUTRIDER_RETURN_IF_ERROR(file->check_unchanged());
  return gguf_ ? gguf_->check_unchanged() : Status();
}

}  // namespace outrider
