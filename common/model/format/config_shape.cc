// Derived from a config: its JSON, its size, its rotary frequencies.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numbers>
#include <utility>

#include "common/model/format/architecture.h"

namespace outrider {
namespace {

// rope_theta is also at the top level, for readers older than rope_parameters; they know the object
// as rope_scaling.
void write_rope(const ModelConfig& config, Json& json) {
  const RopeConfig& rope = config.rope;
  json["rope_theta"] = rope.theta;
  if (rope.scaling == RopeScaling::kNone) return;
  Json object = {{"rope_theta", rope.theta}, {"factor", rope.factor}};
  if (rope.scaling == RopeScaling::kLinear) object["rope_type"] = "linear";
  if (rope.scaling == RopeScaling::kDynamic) object["rope_type"] = "dynamic";
  if (rope.scaling == RopeScaling::kLlama3) {
    object["rope_type"] = "llama3";
    object["low_freq_factor"] = rope.low_freq_factor;
    object["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.scaling == RopeScaling::kFactors) {
    object["rope_type"] = "longrope";
    object["short_factor"] = rope.factors;
    object["long_factor"] = rope.factors;
    object["attention_factor"] = 1.0;
    object["original_max_position_embeddings"] = config.max_positions;
  }
  if (rope.original_max_positions > 0) {
    object["original_max_position_embeddings"] = rope.original_max_positions;
  }
  json["rope_scaling"] = std::move(object);
}

void write_windows(const ModelConfig& config, Json& json) {
  const auto widest = std::max_element(config.windows.begin(), config.windows.end());
  const Position window = widest == config.windows.end() ? 0 : *widest;
  if (config.architecture == "mistral") {
    json["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
  } else if (config.architecture != "llama" && window > 0) {
    json["use_sliding_window"] = true;
    json["sliding_window"] = window;
    Json types = Json::array();
    for (const Position layer : config.windows) {
      types.push_back(layer > 0 ? "sliding_attention" : "full_attention");
    }
    json["layer_types"] = std::move(types);
  }
}

double integer_power(double base, int exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power *= base;
    base *= base;
  }
  return power;
}

// theta^(1/n) by bisection to adjacent doubles: it uses only multiplications and comparisons, which
// round the same on every machine. theta >= 1.
double root(double theta, int n) {
  double low = 1.0;
  double high = theta;
  while (true) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return low;
    (integer_power(middle, n) <= theta ? low : high) = middle;
  }
}

// "The Llama 3 Herd of Models" gives the base. The scaling follows Llama 3.1's published code:
// wavelengths above original / low_freq_factor are multiplied by `factor`, those below original /
// high_freq_factor are kept, and between them the change is linear in the frequency.
double llama3_frequency(const RopeConfig& rope, double frequency) {
  const auto original = static_cast<double>(rope.original_max_positions);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength > original / rope.low_freq_factor) return frequency / rope.factor;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  const double share = (original / wavelength - rope.low_freq_factor) /
                       (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - share) * frequency / rope.factor + share * frequency;
}

}  // namespace

Json config_to_json(const ModelConfig& config, const std::string& dtype) {
  const ModelFamily* family = find_family(config.architecture);
  OUTRIDER_CHECK(family != nullptr);
  Json json = {{"architectures", Json::array({family->causal_class})},
               {"model_type", config.architecture},
               {"vocab_size", config.vocab_size},
               {"hidden_size", config.hidden_size},
               {"intermediate_size", config.intermediate_size},
               {"num_hidden_layers", config.num_layers},
               {"num_attention_heads", config.num_heads},
               {"num_key_value_heads", config.num_kv_heads},
               {"head_dim", config.head_dim},
               {"max_position_embeddings", config.max_positions},
               {"rms_norm_eps", config.rms_norm_eps},
               {"tie_word_embeddings", config.tied_embeddings},
               {"hidden_act", "silu"},
               {"torch_dtype", dtype}};
  if (family->may_have_attention_bias) json["attention_bias"] = config.qkv_bias;
  if (family->may_have_mlp_bias) json["mlp_bias"] = config.mlp_bias;
  write_rope(config, json);
  write_windows(config, json);
  json["eos_token_id"] = config.stop_ids.size() == 1 ? Json(config.stop_ids[0])
                         : config.stop_ids.empty()   ? Json(nullptr)
                                                     : Json(config.stop_ids);
  if (!config.head_tokens.empty()) json["head_tokens"] = config.head_tokens;
  return json;
}

std::int64_t num_parameters(const ModelConfig& config) {
  std::int64_t sum = 0;
  for (const TensorSpec& spec : expected_tensors(config)) {
    std::int64_t product = 1;
    for (const std::int64_t size : spec.shape) product *= size;
    sum += product;
  }
  return sum;
}

std::vector<float> rope_frequencies(const RopeConfig& rope, std::int32_t head_dim) {
  const int pairs = head_dim / 2;
  const double base = root(rope.theta, pairs);
  std::vector<float> frequencies;
  for (int pair = 0; pair < pairs; ++pair) {
    double frequency = 1.0 / integer_power(base, pair);
    if (rope.scaling == RopeScaling::kLinear) frequency /= rope.factor;
    if (rope.scaling == RopeScaling::kLlama3) frequency = llama3_frequency(rope, frequency);
    if (rope.scaling == RopeScaling::kFactors)
      frequency /= rope.factors.at(static_cast<std::size_t>(pair));
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

}  // namespace outrider
