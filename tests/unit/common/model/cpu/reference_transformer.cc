// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/common/model/cpu/reference_transformer.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace outrider {
namespace {

using Vector = std::vector<double>;

class Reference {
 public:
  explicit Reference(const ModelFiles& files) : files_(files), config_(files.config) {}

  std::vector<Vector> run(const std::vector<TokenId>& tokens) {
    std::vector<Vector> hidden;
    const Vector embedding = tensor("model.embed_tokens.weight");
    for (const TokenId token : tokens) {
      const auto first = embedding.begin() + std::ptrdiff_t{token} * config_.hidden_size;
      hidden.emplace_back(first, first + config_.hidden_size);
    }
    for (int layer = 0; layer < config_.num_layers; ++layer) run_layer(layer, hidden);
    for (Vector& row : hidden) {
      row = norm(row, "model.norm.weight");
      row = linear(row, config_.tied_embeddings ? "model.embed_tokens" : "lm_head", false);
    }
    return hidden;
  }

 private:
  Vector tensor(const std::string& name) const {
    const TensorView& view = files_.weights.at(name);
    std::vector<float> values(static_cast<std::size_t>(view.num_elements()));
    widen(view, 0, values);
    return {values.begin(), values.end()};
  }

  Vector norm(const Vector& x, const std::string& name) const {
    const Vector weight = tensor(name);
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double factor =
        1 / std::sqrt(squares / static_cast<double>(x.size()) + config_.rms_norm_eps);
    Vector y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * factor * weight[i];
    return y;
  }

  Vector linear(const Vector& x, const std::string& name, bool has_bias) const {
    const Vector weight = tensor(name + ".weight");
    Vector y = has_bias ? tensor(name + ".bias") : Vector(weight.size() / x.size(), 0.0);
    for (std::size_t n = 0; n < y.size(); ++n) {
      for (std::size_t k = 0; k < x.size(); ++k) y[n] += weight[n * x.size() + k] * x[k];
    }
    return y;
  }

  // Normalises and rotates each head in place.
  void place(Vector& heads, std::size_t position, const std::string& norm_name) const {
    const auto head_dim = static_cast<std::size_t>(config_.head_dim);
    const std::vector<float> frequencies = rope_frequencies(config_.rope, config_.head_dim);
    for (std::size_t first = 0; first < heads.size(); first += head_dim) {
      Vector head(heads.begin() + static_cast<std::ptrdiff_t>(first),
                  heads.begin() + static_cast<std::ptrdiff_t>(first + head_dim));
      if (config_.qk_norm) head = norm(head, norm_name);
      for (std::size_t i = 0; i < head_dim / 2; ++i) {
        const double angle = static_cast<double>(position) * frequencies[i];
        const double one = head[i];
        const double other = head[i + head_dim / 2];
        heads[first + i] = one * std::cos(angle) - other * std::sin(angle);
        heads[first + i + head_dim / 2] = other * std::cos(angle) + one * std::sin(angle);
      }
    }
  }

  void run_layer(int layer, std::vector<Vector>& hidden) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const std::string attention = prefix + "self_attn.";
    keys_.clear();
    values_.clear();
    for (std::size_t t = 0; t < hidden.size(); ++t) {
      const Vector x = norm(hidden[t], prefix + "input_layernorm.weight");
      Vector query = linear(x, attention + "q_proj", config_.qkv_bias);
      keys_.push_back(linear(x, attention + "k_proj", config_.qkv_bias));
      values_.push_back(linear(x, attention + "v_proj", config_.qkv_bias));
      place(query, t, attention + "q_norm.weight");
      place(keys_[t], t, attention + "k_norm.weight");
      const Vector attended = attend(query, t, config_.windows[static_cast<std::size_t>(layer)]);
      add(hidden[t], linear(attended, attention + "o_proj", config_.o_bias));
      const Vector y = norm(hidden[t], prefix + "post_attention_layernorm.weight");
      Vector gate = linear(y, prefix + "mlp.gate_proj", config_.mlp_bias);
      const Vector up = linear(y, prefix + "mlp.up_proj", config_.mlp_bias);
      for (std::size_t i = 0; i < gate.size(); ++i) {
        gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      }
      add(hidden[t], linear(gate, prefix + "mlp.down_proj", config_.mlp_bias));
    }
  }

  Vector attend(const Vector& query, std::size_t t, Position window) const {
    const auto head_dim = static_cast<std::size_t>(config_.head_dim);
    const auto shared = static_cast<std::size_t>(config_.num_heads / config_.num_kv_heads);
    const std::size_t begin = window > 0 && t + 1 > static_cast<std::size_t>(window)
                                  ? t + 1 - static_cast<std::size_t>(window)
                                  : 0;
    Vector out(query.size(), 0.0);
    for (std::size_t h = 0; h * head_dim < query.size(); ++h) {
      const std::size_t from = h / shared * head_dim;
      double sum = 0;
      for (std::size_t s = begin; s <= t; ++s) {
        double dot = 0;
        for (std::size_t k = 0; k < head_dim; ++k) {
          dot += query[h * head_dim + k] * keys_[s][from + k];
        }
        const double weight = std::exp(dot / std::sqrt(static_cast<double>(head_dim)));
        sum += weight;
        for (std::size_t k = 0; k < head_dim; ++k) {
          out[h * head_dim + k] += weight * values_[s][from + k];
        }
      }
      for (std::size_t k = 0; k < head_dim; ++k) out[h * head_dim + k] /= sum;
    }
    return out;
  }

  static void add(Vector& to, const Vector& what) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
  }

  const ModelFiles& files_;
  const ModelConfig& config_;
  std::vector<Vector> keys_, values_;  // by position, of the current layer
};

}  // namespace

std::vector<std::vector<double>> reference_logits(const ModelFiles& files,
                                                  const std::vector<TokenId>& tokens) {
  return Reference(files).run(tokens);
}

}  // namespace outrider
