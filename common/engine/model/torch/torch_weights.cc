// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/torch/torch_weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include <string>

#include "common/engine/model/format/architecture.h"

namespace outrider {
namespace {

at::ScalarType scalar_type(DType dtype) {
  if (dtype == DType::kF32) return at::kFloat;
  return dtype == DType::kF16 ? at::kHalf : at::kBFloat16;
}

class Loader final {
 public:
  Loader(const ModelFiles& files, at::ScalarType dtype, at::Device device)
      : files_(files), dtype_(dtype), device_(device) {}

  at::Tensor vector(ModelPart part, std::size_t layer = 0) const {
    return tensor(weight_name(part, static_cast<std::int32_t>(layer)), at::kFloat);
  }
  at::Tensor matrix(ModelPart part, std::size_t layer = 0) const {
    return tensor(weight_name(part, static_cast<std::int32_t>(layer)), dtype_);
  }
  TorchLinear linear(ModelPart part, std::size_t layer, bool has_bias) const {
    const std::string bias = bias_name(part, static_cast<std::int32_t>(layer));
    return {matrix(part, layer), has_bias ? tensor(bias, at::kFloat) : at::Tensor()};
  }

 private:
  // The mapping itself if no conversion is needed.
  at::Tensor tensor(const std::string& name, at::ScalarType dtype) const {
    const TensorView& view = files_.weights.at(name);
    if (block_elements(view.dtype) > 1 || !view.is_plain()) {
      at::Tensor values = at::empty(view.shape, at::kFloat);
      widen(view, 0, {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
      return values.to(device_, dtype);
    }
    // Never written: the mapping is read-only.
    void* data = const_cast<std::byte*>(view.data);
    return at::from_blob(data, view.shape, at::TensorOptions().dtype(scalar_type(view.dtype)))
        .to(device_, dtype);
  }

  const ModelFiles& files_;
  const at::ScalarType dtype_;
  const at::Device device_;
};

TorchLayer load_layer(const Loader& loader, const ModelConfig& config, std::size_t index) {
  TorchLayer layer;
  layer.input_norm = loader.vector(ModelPart::kAttentionNorm, index);
  layer.attention_norm = loader.vector(ModelPart::kMlpNorm, index);
  if (config.qk_norm) {
    layer.q_norm = loader.vector(ModelPart::kQueryNorm, index);
    layer.k_norm = loader.vector(ModelPart::kKeyNorm, index);
  }
  layer.q = loader.linear(ModelPart::kQuery, index, config.qkv_bias);
  layer.k = loader.linear(ModelPart::kKey, index, config.qkv_bias);
  layer.v = loader.linear(ModelPart::kValue, index, config.qkv_bias);
  layer.o = loader.linear(ModelPart::kAttentionOutput, index, config.o_bias);
  layer.gate = loader.linear(ModelPart::kGate, index, config.mlp_bias);
  layer.up = loader.linear(ModelPart::kUp, index, config.mlp_bias);
  layer.down = loader.linear(ModelPart::kDown, index, config.mlp_bias);
  layer.window = config.windows[index];
  return layer;
}

}  // namespace

TorchWeights load_torch_weights(const ModelFiles& files, at::ScalarType dtype, at::Device device) {
  const Loader loader(files, dtype, device);
  TorchWeights weights;
  weights.embedding = loader.matrix(ModelPart::kEmbedding);
  for (std::size_t i = 0; i < files.config.windows.size(); ++i) {
    weights.layers.push_back(load_layer(loader, files.config, i));
  }
  weights.final_norm = loader.vector(ModelPart::kFinalNorm);
  weights.head = files.config.tied_embeddings ? TorchLinear{weights.embedding, {}}
                                              : loader.linear(ModelPart::kHead, 0, false);
  if (!files.config.head_tokens.empty()) {
    weights.head_tokens = at::tensor(
        std::vector<std::int64_t>(files.config.head_tokens.begin(), files.config.head_tokens.end()),
        at::TensorOptions().dtype(at::kLong).device(device));
    weights.head.weight = weights.head.weight.index_select(0, weights.head_tokens);
  }
  return weights;
}

}  // namespace outrider
