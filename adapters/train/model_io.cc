// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/model_io.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "adapters/data/tokenizer_copy.h"
#include "adapters/shape/compose.h"
#include "adapters/train/border.h"
#include "common/base/mapped_file.h"
#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/format/model_writer.h"
#include "common/engine/model/format/safetensors.h"
#include "common/engine/model/format/safetensors_writer.h"

namespace outrider {
namespace {

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

at::Tensor to_tensor(const TensorView& view) {
  at::Tensor tensor = at::empty(view.shape, at::kFloat);
  widen(view, 0, {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())});
  return tensor;
}

// Tensors for another depth: layer i of the model is layer layers[i] of the files.
std::string stored_name(const TensorSpec& spec, const std::vector<std::int32_t>& layers) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (layers.empty() || !spec.name.starts_with(kPrefix)) return spec.name;
  const std::size_t end = spec.name.find('.', kPrefix.size());
  const auto layer = std::stoul(spec.name.substr(kPrefix.size(), end - kPrefix.size()));
  return std::string(kPrefix) + std::to_string(layers[layer]) + spec.name.substr(end);
}

Status choose_layers(const std::vector<std::int32_t>& layers, ModelConfig& config) {
  std::vector<Position> windows;
  for (const std::int32_t layer : layers) {
    if (layer < 0 || layer >= config.num_layers) {
      return invalid_argument("prune: layer " + std::to_string(layer) + " must be from 0 to " +
                              std::to_string(config.num_layers - 1));
    }
    windows.push_back(config.windows[static_cast<std::size_t>(layer)]);
  }
  config.num_layers = static_cast<std::int32_t>(layers.size());
  config.windows = std::move(windows);
  return {};
}

}  // namespace

Status save_tensors(const std::string& directory, const ModelConfig& config,
                    const NamedTensors& state, DType dtype) {
  std::unordered_map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : state) tensors.emplace(name, tensor.contiguous());
  return write_model(directory, config, dtype,
                     [&](const TensorSpec& spec, std::int64_t begin, std::span<float> out) {
                       std::memcpy(out.data(),
                                   tensors.at(spec.name).const_data_ptr<float>() + begin,
                                   out.size_bytes());
                     });
}

Status save_model(const std::string& directory, const Llama& model, DType dtype,
                  const std::string& tokenizer) {
  OUTRIDER_RETURN_IF_ERROR(save_tensors(directory, model.config(), model.state(), dtype));
  return copy_tokenizer(tokenizer, directory);
}

Status save_layers(const std::string& directory, const ModelConfig& config,
                   const NamedTensors& state) {
  std::vector<at::Tensor> kept;
  std::vector<TensorBytes> parts;
  for (const auto& [name, tensor] : state) {
    const bool is_outside =
        name == weight_name(ModelPart::kEmbedding) || name == weight_name(ModelPart::kHead);
    if (is_outside) continue;
    kept.push_back(tensor.to(at::kBFloat16).contiguous());
    parts.push_back({{name, DType::kBF16, tensor.sizes().vec()}, bytes_of(kept.back())});
  }
  return write_draft_layers(directory, config, std::move(parts));
}

Result<Llama> load_model(const std::string& path, at::ScalarType compute,
                         const InitialModel& init) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(path, {}));
  ModelConfig config = files->config;
  OUTRIDER_RETURN_IF_ERROR(check_llama_blocks(config, "training"));
  if (!init.layers.empty()) OUTRIDER_RETURN_IF_ERROR(choose_layers(init.layers, config));
  if (!init.head_tokens.empty()) config.head_tokens = init.head_tokens;
  return guarded([&]() -> Result<Llama> {
    Llama model(config, compute, 0);
    NamedTensors tensors;
    for (const TensorSpec& spec : expected_tensors(config)) {
      tensors.emplace_back(spec.name, to_tensor(files->weights.at(stored_name(spec, init.layers))));
    }
    model.load_state(tensors);
    return model;
  });
}

Status write_tensors(const std::string& path, const NamedTensors& tensors) {
  std::vector<at::Tensor> kept;
  std::vector<TensorBytes> parts;
  for (const auto& [name, tensor] : tensors) {
    kept.push_back(tensor.to(at::kFloat).contiguous());
    parts.push_back({{name, DType::kF32, tensor.sizes().vec()}, bytes_of(kept.back())});
  }
  return write_safetensors(path, std::move(parts), kCheckpointFile);
}

Result<NamedTensors> read_tensors(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::open(path));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<SafetensorsEntry> entries,
                            parse_safetensors(file->bytes(), path));
  NamedTensors tensors;
  for (const SafetensorsEntry& entry : entries) {
    const TensorView view{entry.dtype, entry.shape, file->bytes().data() + entry.begin,
                          static_cast<std::size_t>(entry.end - entry.begin)};
    tensors.emplace_back(entry.name, to_tensor(view));
  }
  return tensors;
}

}  // namespace outrider
