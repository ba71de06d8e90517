// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/model_io.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "adapters/data/tokenizer_copy.h"
#include "adapters/train/border.h"
#include "common/base/mapped_file.h"
#include "common/model/format/model_files.h"
#include "common/model/format/model_writer.h"
#include "common/model/format/safetensors.h"
#include "common/model/format/safetensors_writer.h"

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

Status check_supported(const ModelConfig& config) {
  if (config.architecture != "llama" || !config.tied_embeddings || config.qkv_bias ||
      config.o_bias || config.mlp_bias || config.rope.scaling != RopeScaling::kNone) {
    return unimplemented(
        "training supports Llama models with tied embeddings, no biases and plain "
        "rotary positions; this is another kind (" +
        config.architecture + ")");
  }
  return {};
}

}  // namespace

Status save_model(const std::string& directory, const Llama& model, DType dtype,
                  const std::string& tokenizer) {
  std::unordered_map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : model.state()) tensors.emplace(name, tensor.contiguous());
  OUTRIDER_RETURN_IF_ERROR(
      write_model(directory, model.config(), dtype,
                  [&](const TensorSpec& spec, std::int64_t begin, std::span<float> out) {
                    std::memcpy(out.data(), tensors.at(spec.name).const_data_ptr<float>() + begin,
                                out.size_bytes());
                  }));
  return copy_tokenizer(tokenizer, directory);
}

Result<Llama> load_model(const std::string& directory, at::ScalarType compute) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(directory, {}));
  OUTRIDER_RETURN_IF_ERROR(check_supported(files->config));
  return guarded([&]() -> Result<Llama> {
    Llama model(files->config, compute, 0);
    NamedTensors tensors;
    for (const auto& [name, view] : files->weights.tensors()) {
      tensors.emplace_back(name, to_tensor(view));
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
  return write_safetensors(path, std::move(parts));
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
