// The rotations of config.json, and their frequencies. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "common/base/portable_math.h"
#include "common/engine/model/format/config_readers.h"

namespace outrider {
namespace {

Result<RopeScaling> read_scaling(FieldReader& fields, const std::string& type, bool is_phi3) {
  if (type == "default") return RopeScaling::kNone;
  if (type == "linear") return RopeScaling::kLinear;
  if (type == "llama3") return RopeScaling::kLlama3;
  if (type == "dynamic") return RopeScaling::kDynamic;
  // Early files of Phi-3 have other names for the same.
  if (type == "longrope" || (is_phi3 && (type == "su" || type == "yarn"))) {
    return RopeScaling::kFactors;
  }
  if (type == "yarn") return RopeScaling::kYarn;
  return unimplemented(fields.what() + ": type \"" + type.substr(0, 60) +
                       "\" is not supported; supported are default, linear, llama3, dynamic, yarn "
                       "and longrope");
}

// The factors for texts of at most the original length. Those for longer texts would change the
// angles of earlier positions, which a KV cache cannot follow: original_max_positions bounds the
// model.
Status read_factors(FieldReader& fields, const ModelConfig& config, RopeConfig& rope) {
  const std::int32_t pairs = config.rotated() / 2;
  for (const char* key : {"short_factor", "long_factor"}) {
    const Json& list = fields.has(key) ? fields.object()[key] : Json();
    if (list.is_array() && std::cmp_equal(list.size(), pairs)) continue;
    return invalid_argument(fields.what() + ": " + key + " must list half the rotated elements (" +
                            std::to_string(pairs) + ") numbers");
  }
  const Json& factors = fields.object()["short_factor"];
  const bool equal = factors == fields.object()["long_factor"];
  rope.factors.clear();
  for (const Json& factor : factors) {
    const Json wrapped = {{"short_factor", factor}};
    FieldReader field(wrapped, fields.what());
    rope.factors.push_back(static_cast<float>(field.real("short_factor", 1e-6, 1e6)));
    OUTRIDER_RETURN_IF_ERROR(field.status());
  }
  if (rope.original_max_positions == 0) {
    return invalid_argument(fields.what() + ": original_max_position_embeddings is missing");
  }
  const double ratio =
      static_cast<double>(config.max_positions) / static_cast<double>(rope.original_max_positions);
  const double factor = fields.real("factor", 1e-6, 1e6, ratio);
  rope.attention_factor =
      fields.real("attention_factor", 1e-3, 1e3,
                  longrope_attention_factor(factor, rope.original_max_positions));
  if (equal) rope.original_max_positions = config.max_positions;
  return fields.status();
}

void read_llama3(FieldReader& fields, RopeConfig& rope) {
  rope.low_freq_factor = fields.real("low_freq_factor", 1e-6, 1e6);
  rope.high_freq_factor = fields.real("high_freq_factor", 1e-6, 1e6);
  if (rope.original_max_positions == 0) {
    fields.fail(invalid_argument(fields.what() + ": original_max_position_embeddings is missing"));
  }
  if (rope.low_freq_factor >= rope.high_freq_factor) {
    fields.fail(
        invalid_argument(fields.what() + ": low_freq_factor must be below high_freq_factor"));
  }
}

void read_yarn(FieldReader& fields, RopeConfig& rope) {
  for (const char* key : {"mscale", "mscale_all_dim"}) {
    if (fields.has(key)) {
      fields.fail(unimplemented(fields.what() + ": " + key + " of yarn is not supported"));
    }
  }
  rope.attention_factor =
      fields.real("attention_factor", 1e-3, 1e3, yarn_attention_factor(rope.factor));
  rope.beta_fast = fields.real("beta_fast", 1e-3, 1e6, 32.0);
  rope.beta_slow = fields.real("beta_slow", 1e-3, 1e6, 1.0);
  rope.truncate = fields.flag("truncate", true);
  if (rope.beta_slow >= rope.beta_fast) {
    fields.fail(invalid_argument(fields.what() + ": beta_slow must be below beta_fast"));
  }
}

// A part of each head is rotated in phi3; elsewhere transformers would ignore the field.
Status read_rotated(FieldReader& fields, bool is_phi3, ModelConfig& config) {
  const double share = fields.real("partial_rotary_factor", 0, 1, 1.0);
  if (share == 1.0 || !fields.status().ok()) return fields.status();
  if (!is_phi3) {
    return unimplemented(fields.what() + ": partial_rotary_factor is not supported in a " +
                         config.architecture + " model");
  }
  config.rotated_dim = static_cast<std::int32_t>(config.head_dim * share + 1e-6);
  if (config.rotated_dim >= 2 && config.rotated_dim % 2 == 0) {
    if (config.rotated_dim == config.head_dim) config.rotated_dim = 0;
    return {};
  }
  return invalid_argument(fields.what() + ": partial_rotary_factor rotates " +
                          std::to_string(config.rotated_dim) + " of " +
                          std::to_string(config.head_dim) + " elements, must be an even number");
}

// The object that transformers 4 calls rope_scaling and 5 calls rope_parameters.
Status read_rope_object(FieldReader& fields, ModelConfig& config, RopeConfig& rope) {
  const bool is_phi3 = config.architecture == "phi3";
  const std::string old_type = fields.text("type", "default");
  const std::string type = fields.text("rope_type", old_type);
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  OUTRIDER_ASSIGN_OR_RETURN(rope.scaling, read_scaling(fields, type, is_phi3));
  OUTRIDER_RETURN_IF_ERROR(read_rotated(fields, is_phi3, config));
  rope.theta = fields.real("rope_theta", 1.0, 1e12, rope.theta);
  if (fields.has("original_max_position_embeddings")) {
    rope.original_max_positions =
        fields.integer("original_max_position_embeddings", 1, kMaxPositions);
  }
  if (rope.scaling == RopeScaling::kFactors) return read_factors(fields, config, rope);
  if (rope.scaling != RopeScaling::kNone) rope.factor = fields.real("factor", 1.0, 1e6);
  if (rope.scaling == RopeScaling::kLlama3) read_llama3(fields, rope);
  if (rope.scaling == RopeScaling::kYarn) {
    if (rope.original_max_positions == 0) rope.original_max_positions = config.max_positions;
    read_yarn(fields, rope);
  }
  return fields.status();
}

// The rotations of the layers with and without a window: two fields in transformers 4, an object
// for each in 5.
Status read_gemma_ropes(FieldReader& fields, ModelConfig& config) {
  config.local_rope.theta = fields.real("rope_local_base_freq", 1.0, 1e12, 10000.0);
  if (!fields.has("rope_parameters")) return fields.status();
  const Json& both = fields.object()["rope_parameters"];
  if (!both.is_object())
    return invalid_argument(fields.what() + ": rope_parameters: must be a JSON object");
  if (!both.contains("full_attention")) return fields.status();
  for (const auto& [key, rope] : {std::pair("full_attention", &config.rope),
                                  std::pair("sliding_attention", &config.local_rope)}) {
    const auto found = both.find(key);
    if (found == both.end()) continue;
    FieldReader nested(*found, fields.what() + ": rope_parameters: " + key);
    OUTRIDER_RETURN_IF_ERROR(nested.status());
    OUTRIDER_RETURN_IF_ERROR(read_rope_object(nested, config, *rope));
  }
  if (config.local_rope.scaling == RopeScaling::kNone) return {};
  return unimplemented(fields.what() +
                       ": rope_parameters: sliding_attention: only type default is supported");
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

// YaRN (Peng et al. 2023): pairs that turn more than beta_fast times within the original length are
// kept, those that turn less than beta_slow times are divided, and between them the change is
// linear in the number of the pair.
class YarnRamp final {
 public:
  YarnRamp(const RopeConfig& rope, std::int32_t rotated) {
    const auto pair_of = [&](double turns) {
      const auto original = static_cast<double>(rope.original_max_positions);
      return rotated * portable_log(original / (turns * 2 * std::numbers::pi)) /
             (2 * portable_log(std::max(rope.theta, 1.0 + 1e-9)));
    };
    low_ = pair_of(rope.beta_fast);
    high_ = pair_of(rope.beta_slow);
    if (rope.truncate) {
      low_ = std::floor(low_);
      high_ = std::ceil(high_);
    }
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, rotated - 1.0);
    if (high_ <= low_) high_ = low_ + 0.001;
  }

  double frequency(const RopeConfig& rope, double frequency, int pair) const {
    const double divided = std::clamp((pair - low_) / (high_ - low_), 0.0, 1.0);
    return frequency / rope.factor * divided + frequency * (1 - divided);
  }

 private:
  double low_, high_;
};

}  // namespace

double yarn_attention_factor(double factor) {
  return factor <= 1.0 ? 1.0 : 0.1 * portable_log(factor) + 1.0;
}

double longrope_attention_factor(double factor, Position original_positions) {
  if (factor <= 1.0 || original_positions < 2) return 1.0;
  return std::sqrt(1.0 +
                   portable_log(factor) / portable_log(static_cast<double>(original_positions)));
}

Status read_rope(FieldReader& fields, const ModelFamily& family, ModelConfig& config) {
  if (config.kinds.learned_positions) return {};
  RopeConfig& rope = config.rope;
  rope.theta = fields.real("rope_theta", 1.0, 1e12, family.theta);
  const bool is_phi3 = config.architecture == "phi3";
  OUTRIDER_RETURN_IF_ERROR(read_rotated(fields, is_phi3, config));
  if (is_phi3 && fields.has("original_max_position_embeddings")) {
    rope.original_max_positions =
        fields.integer("original_max_position_embeddings", 1, kMaxPositions);
  }
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  const bool is_gemma = config.architecture == "gemma3_text";
  if (is_gemma) OUTRIDER_RETURN_IF_ERROR(read_gemma_ropes(fields, config));
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(key)) continue;
    const Json& object = fields.object()[key];
    if (is_gemma && object.is_object() && object.contains("full_attention")) continue;
    FieldReader nested(object, fields.what() + ": " + key);
    OUTRIDER_RETURN_IF_ERROR(nested.status());
    OUTRIDER_RETURN_IF_ERROR(read_rope_object(nested, config, rope));
  }
  // Beyond the original length these scalings would change the angles of earlier positions, which
  // a KV cache cannot follow.
  const bool bounded =
      rope.scaling == RopeScaling::kDynamic || rope.scaling == RopeScaling::kFactors;
  if (bounded && rope.original_max_positions > 0) {
    config.max_positions = std::min(config.max_positions, rope.original_max_positions);
  }
  return {};
}

std::vector<float> rope_frequencies(const RopeConfig& rope, std::int32_t rotated) {
  const int pairs = rotated / 2;
  const double base = root(rope.theta, pairs);
  std::optional<YarnRamp> ramp;
  if (rope.scaling == RopeScaling::kYarn) ramp.emplace(rope, rotated);
  std::vector<float> frequencies;
  for (int pair = 0; pair < pairs; ++pair) {
    double frequency = 1.0 / integer_power(base, pair);
    if (rope.scaling == RopeScaling::kLinear) frequency /= rope.factor;
    if (rope.scaling == RopeScaling::kLlama3) frequency = llama3_frequency(rope, frequency);
    if (ramp) frequency = ramp->frequency(rope, frequency, pair);
    if (rope.scaling == RopeScaling::kFactors)
      frequency /= rope.factors.at(static_cast<std::size_t>(pair));
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

}  // namespace outrider
