// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/common/engine/model/cpu/reference_transformer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

namespace outrider {
namespace {

using Vector = std::vector<double>;

class Reference {
 public:
  explicit Reference(const ModelFiles& files) : files_(files), config_(files.config) {}

  std::vector<Vector> run(const std::vector<TokenId>& tokens) {
    std::vector<Vector> hidden;
    const Vector embedding = tensor("model.embed_tokens.weight");
    const Vector positions =
        config_.position_rows > 0 ? tensor("model.embed_positions.weight") : Vector();
    for (const TokenId token : tokens) {
      const auto first = embedding.begin() + std::ptrdiff_t{token} * config_.hidden_size;
      Vector row(first, first + config_.hidden_size);
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] *= config_.embedding_scale;
        if (!positions.empty()) row[i] += positions[hidden.size() * row.size() + i];
      }
      hidden.push_back(std::move(row));
    }
    for (int layer = 0; layer < config_.num_layers; ++layer) run_layer(layer, hidden);
    for (Vector& row : hidden) row = logits(row);
    return hidden;
  }

  Vector logits(const Vector& hidden) const {
    Vector row = norm(hidden, "model.norm");
    row = linear(row, config_.tied_embeddings ? "model.embed_tokens" : "lm_head", false);
    for (double& logit : row) logit = capped(logit / config_.logit_divisor, config_.logit_cap);
    return row;
  }

 private:
  Vector tensor(const std::string& name) const {
    const TensorView& view = files_.weights.at(name);
    std::vector<float> values(static_cast<std::size_t>(view.num_elements()));
    widen(view, 0, values);
    return {values.begin(), values.end()};
  }

  static double capped(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }

  Vector norm(const Vector& x, const std::string& name) const {
    const Vector weight = tensor(name + ".weight");
    const bool centres = files_.weights.find(name + ".bias") != nullptr;
    const Vector bias = centres ? tensor(name + ".bias") : Vector(x.size(), 0.0);
    const auto count = static_cast<double>(x.size());
    const double mean = centres ? std::accumulate(x.begin(), x.end(), 0.0) / count : 0;
    double squares = 0;
    for (const double value : x) squares += (value - mean) * (value - mean);
    const double factor = 1 / std::sqrt(squares / count + config_.rms_norm_eps);
    Vector y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = (x[i] - mean) * factor * weight[i] + bias[i];
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
  void place(Vector& heads, std::size_t position, const std::string& norm_name,
             LayerRope rope) const {
    const auto head_dim = static_cast<std::size_t>(config_.head_dim);
    const RopeConfig& kind = rope == LayerRope::kLocal ? config_.local_rope : config_.rope;
    const std::vector<float> frequencies =
        rope == LayerRope::kNone ? std::vector<float>() : rope_frequencies(kind, config_.rotated());
    const std::size_t pairs = frequencies.size();
    for (std::size_t first = 0; first < heads.size(); first += head_dim) {
      Vector head(heads.begin() + static_cast<std::ptrdiff_t>(first),
                  heads.begin() + static_cast<std::ptrdiff_t>(first + head_dim));
      if (config_.qk_norm) head = norm(head, norm_name);
      std::copy(head.begin(), head.end(), heads.begin() + static_cast<std::ptrdiff_t>(first));
      for (std::size_t i = 0; i < pairs; ++i) {
        const double angle = static_cast<double>(position) * frequencies[i];
        const double one = head[i];
        const double other = head[i + pairs];
        heads[first + i] = one * std::cos(angle) - other * std::sin(angle);
        heads[first + i + pairs] = other * std::cos(angle) + one * std::sin(angle);
      }
    }
  }

  void run_layer(int layer, std::vector<Vector>& hidden) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const std::string attention = prefix + "self_attn.";
    const LayerRope rope = config_.rope_of(layer);
    keys_.clear();
    values_.clear();
    for (std::size_t t = 0; t < hidden.size(); ++t) {
      const Vector x = norm(hidden[t], prefix + "input_layernorm");
      Vector query = linear(x, attention + "q_proj", config_.qkv_bias);
      keys_.push_back(linear(x, attention + "k_proj", config_.qkv_bias));
      values_.push_back(linear(x, attention + "v_proj", config_.qkv_bias));
      place(query, t, attention + "q_norm", rope);
      place(keys_[t], t, attention + "k_norm", rope);
      const Vector attended = attend(query, t, config_.windows[static_cast<std::size_t>(layer)]);
      add(hidden[t], linear(attended, attention + "o_proj", config_.o_bias),
          prefix + "attention_output_layernorm");
      const Vector y = norm(hidden[t], prefix + "post_attention_layernorm");
      add(hidden[t],
          config_.experts.count > 0 ? experts(y, prefix + "mlp.") : mlp(y, prefix + "mlp."),
          prefix + "mlp_output_layernorm");
    }
  }

  double activated(double x) const {
    switch (config_.kinds.activation) {
      case Activation::kGelu:
        return x * (1 + std::erf(x / std::sqrt(2.0))) / 2;
      case Activation::kGeluTanh:
        return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
      case Activation::kRelu:
        return std::max(x, 0.0);
      case Activation::kSilu:
        break;
    }
    return x / (1 + std::exp(-x));
  }

  Vector mlp(const Vector& x, const std::string& stem) const {
    Vector inner = linear(x, stem + "up_proj", config_.mlp_bias);
    const Vector gate =
        config_.kinds.gated ? linear(x, stem + "gate_proj", config_.mlp_bias) : Vector();
    for (std::size_t i = 0; i < inner.size(); ++i) {
      inner[i] = gate.empty() ? activated(inner[i]) : activated(gate[i]) * inner[i];
    }
    return linear(inner, stem + "down_proj", config_.mlp_bias);
  }

  Vector experts(const Vector& x, const std::string& stem) const {
    const Vector scores = linear(x, stem + "gate", false);
    Vector sorted = scores;
    std::ranges::sort(sorted, std::greater());
    const double least = sorted[static_cast<std::size_t>(config_.experts.used - 1)];
    double all = 0, chosen = 0;
    for (const double score : scores) {
      all += std::exp(score);
      if (score >= least) chosen += std::exp(score);
    }
    Vector sum(x.size(), 0.0);
    for (std::size_t e = 0; e < scores.size(); ++e) {
      if (scores[e] < least) continue;
      const double share = std::exp(scores[e]) / (config_.experts.normalized ? chosen : all);
      const Vector part = mlp(x, stem + "experts." + std::to_string(e) + ".");
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += share * part[i];
    }
    return sum;
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
        const double scale = config_.attention_scale > 0
                                 ? config_.attention_scale
                                 : 1 / std::sqrt(static_cast<double>(head_dim));
        const double weight = std::exp(capped(dot * scale, config_.attention_cap));
        sum += weight;
        for (std::size_t k = 0; k < head_dim; ++k) {
          out[h * head_dim + k] += weight * values_[s][from + k];
        }
      }
      for (std::size_t k = 0; k < head_dim; ++k) out[h * head_dim + k] /= sum;
    }
    return out;
  }

  // The norm is left out where the model has none of that name.
  void add(Vector& to, const Vector& what, const std::string& norm_name) const {
    const bool normed = files_.weights.find(norm_name + ".weight") != nullptr;
    const Vector what_is_added = normed ? norm(what, norm_name) : what;
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] += config_.residual_scale * what_is_added[i];
    }
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

std::vector<double> logits_of_hidden(const ModelFiles& files, const std::vector<float>& hidden) {
  return Reference(files).logits({hidden.begin(), hidden.end()});
}

}  // namespace outrider
