// Llama::decode(): one position at a time over cached keys and values.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "adapters/train/fused.h"
#include "adapters/train/llama.h"

namespace outrider {
namespace {

// x: [batch, heads, n, head_dim] at positions [begin, begin + n).
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
                  std::int64_t begin) {
  const std::int64_t half = x.size(3) / 2;
  const at::Tensor c = cosine.narrow(0, begin, x.size(2)), s = sine.narrow(0, begin, x.size(2));
  const at::Tensor a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
  return at::cat({a * c - b * s, b * c + a * s}, -1);
}

}  // namespace

DecodeCache::DecodeCache(const ModelConfig& config, at::ScalarType type, std::int64_t batch,
                         std::int64_t capacity) {
  for (std::int32_t i = 0; i < config.num_layers; ++i) {
    for (std::vector<at::Tensor>* part : {&keys, &values}) {
      part->push_back(at::empty({batch, config.num_kv_heads, capacity, config.head_dim}, type));
    }
  }
}

at::Tensor Llama::attend(const at::Tensor& qkv, std::int64_t batch, std::size_t layer,
                         DecodeCache& cache) const {
  const std::int64_t n = qkv.size(0) / batch, heads = config_.num_heads, width = config_.head_dim;
  const std::int64_t kv_heads = config_.num_kv_heads, group = heads / kv_heads;
  const std::int64_t seen = cache.position + n;
  TORCH_CHECK(n == 1 || cache.position == 0, "decode: several tokens only at the start");
  const at::Tensor split =
      qkv.view({batch, n, heads + 2 * kv_heads, width}).transpose(1, 2).to(at::kFloat);
  const at::Tensor query =
      rotate(split.narrow(1, 0, heads), cosine_, sine_, cache.position).to(compute_);
  cache.keys[layer]
      .narrow(2, cache.position, n)
      .copy_(rotate(split.narrow(1, heads, kv_heads), cosine_, sine_, cache.position));
  cache.values[layer]
      .narrow(2, cache.position, n)
      .copy_(split.narrow(1, heads + kv_heads, kv_heads));
  // The heads of a group are rows of one matrix: [batch, kv_heads, group n, head_dim].
  const at::Tensor rows = query.reshape({batch, kv_heads, group * n, width});
  at::Tensor scores =
      at::matmul(rows, cache.keys[layer].narrow(2, 0, seen).transpose(2, 3)).to(at::kFloat) /
      std::sqrt(static_cast<double>(width));
  if (n > 1) {
    const at::Tensor future = at::ones({n, n}, at::kBool).triu(1).repeat({group, 1});
    scores = scores.masked_fill(future, -std::numeric_limits<float>::infinity());
  }
  return at::matmul(at::softmax(scores, -1).to(compute_), cache.values[layer].narrow(2, 0, seen))
      .view({batch, heads, n, width})
      .transpose(1, 2)
      .reshape({batch * n, heads * width});
}

at::Tensor Llama::decode(const at::Tensor& ids, DecodeCache& cache) const {
  at::NoGradGuard no_grad;
  const std::int64_t batch = ids.size(0), n = ids.size(1);
  TORCH_CHECK(cache.position + n <= longest(), "decode: the context is full");
  at::Tensor x = at::embedding(embedding_, ids.flatten());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LlamaLayer& layer = layers_[i];
    x = layer.close(x, attend(layer.project(x), batch, i, cache));
  }
  cache.position += n;
  const at::Tensor last = x.view({batch, n, -1}).select(1, n - 1).contiguous();
  return fused_rms_norm(last, norm_, config_.rms_norm_eps, compute_);
}

}  // namespace outrider
