// SPDX-License-Identifier: Apache-2.0
#include "common/model/torch/torch_weights.h"

#include <ATen/ops/from_blob.h>

#include <string>

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

  at::Tensor vector(const std::string& name) const { return tensor(name, at::kFloat); }
  at::Tensor matrix(const std::string& name) const { return tensor(name, dtype_); }

  TorchLinear linear(const std::string& name, bool has_bias) const {
    return {matrix(name + ".weight"), has_bias ? vector(name + ".bias") : at::Tensor()};
  }

 private:
  // to() gives the mapping itself where nothing changes.
  at::Tensor tensor(const std::string& name, at::ScalarType dtype) const {
    const TensorView& view = files_.weights.at(name);
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
  const std::string name = "model.layers." + std::to_string(index) + ".";
  TorchLayer layer;
  layer.input_norm = loader.vector(name + "input_layernorm.weight");
  layer.attention_norm = loader.vector(name + "post_attention_layernorm.weight");
  if (config.qk_norm) {
    layer.q_norm = loader.vector(name + "self_attn.q_norm.weight");
    layer.k_norm = loader.vector(name + "self_attn.k_norm.weight");
  }
  layer.q = loader.linear(name + "self_attn.q_proj", config.qkv_bias);
  layer.k = loader.linear(name + "self_attn.k_proj", config.qkv_bias);
  layer.v = loader.linear(name + "self_attn.v_proj", config.qkv_bias);
  layer.o = loader.linear(name + "self_attn.o_proj", config.o_bias);
  layer.gate = loader.linear(name + "mlp.gate_proj", config.mlp_bias);
  layer.up = loader.linear(name + "mlp.up_proj", config.mlp_bias);
  layer.down = loader.linear(name + "mlp.down_proj", config.mlp_bias);
  layer.window = config.windows[index];
  return layer;
}

}  // namespace

TorchWeights load_torch_weights(const ModelFiles& files, at::ScalarType dtype, at::Device device) {
  const Loader loader(files, dtype, device);
  TorchWeights weights;
  weights.embedding = loader.matrix("model.embed_tokens.weight");
  for (std::size_t i = 0; i < files.config.windows.size(); ++i) {
    weights.layers.push_back(load_layer(loader, files.config, i));
  }
  weights.final_norm = loader.vector("model.norm.weight");
  weights.head = files.config.tied_embeddings ? TorchLinear{weights.embedding, {}}
                                              : loader.linear("lm_head", false);
  return weights;
}

}  // namespace outrider
