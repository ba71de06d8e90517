// SPDX-License-Identifier: Apache-2.0
#include "common/model/format/config.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/base/files.h"
#include "common/model/format/architecture.h"
#include "common/model/format/config_fields.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxConfigBytes = 4 << 20;

Result<const ModelFamily*> read_family(FieldReader& fields) {
  const std::string type = fields.text("model_type");
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  const ModelFamily* family = find_family(type);
  if (family == nullptr) {
    std::string names;
    for (const ModelFamily& known : model_families()) {
      names += std::string(names.empty() ? "" : ", ") + known.name;
    }
    return unimplemented(fields.what() + ": model_type \"" + type.substr(0, 60) +
                         "\" is not supported; supported are " + names);
  }
  if (fields.has("architectures")) {
    const Json& classes = fields.object()["architectures"];
    if (!classes.is_array() || classes.size() != 1 || classes[0] != family->causal_class) {
      return unimplemented(fields.what() + ": architectures must be [\"" + family->causal_class +
                           "\"]: only language models are supported");
    }
  }
  return family;
}

// Unsupported features that would change the result.
Status refuse_unsupported(FieldReader& fields) {
  if (const std::string act = fields.text("hidden_act", "silu"); act != "silu") {
    fields.fail(unimplemented(fields.what() + ": hidden_act \"" + act.substr(0, 60) +
                              "\" is not supported, only silu"));
  }
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (fields.has(key)) {
      fields.fail(unimplemented(fields.what() + ": " + key +
                                " is not supported: use the unquantized model; --dtype int8 "
                                "quantizes it at loading"));
    }
  }
  if (fields.real("partial_rotary_factor", 0, 1, 1.0) != 1.0) {
    fields.fail(unimplemented(fields.what() + ": partial_rotary_factor is not supported"));
  }
  return fields.status();
}

Result<RopeScaling> read_scaling(FieldReader& fields, const std::string& type) {
  if (type == "default") return RopeScaling::kNone;
  if (type == "linear") return RopeScaling::kLinear;
  if (type == "llama3") return RopeScaling::kLlama3;
  if (type == "dynamic") return RopeScaling::kDynamic;
  if (type == "longrope") return RopeScaling::kFactors;
  return unimplemented(fields.what() + ": type \"" + type.substr(0, 60) +
                       "\" is not supported; supported are default, linear, llama3, dynamic, and "
                       "longrope with equal factors");
}

// Only in the form of config_to_json(): the same factors at every length, no change of the
// attention.
Status read_factors(FieldReader& fields, std::int32_t head_dim, RopeConfig& rope) {
  const Json& object = fields.object();
  const bool equal = fields.has("short_factor") && fields.has("long_factor") &&
                     object["short_factor"] == object["long_factor"];
  if (!equal || fields.real("attention_factor", 0, 1e6, 0.0) != 1.0) {
    return unimplemented(fields.what() +
                         ": longrope is supported only with equal short_factor and long_factor "
                         "and an attention_factor of 1");
  }
  const Json& factors = object["long_factor"];
  if (!factors.is_array() || std::cmp_not_equal(factors.size(), head_dim / 2)) {
    return invalid_argument(fields.what() + ": long_factor must list head_dim / 2 (" +
                            std::to_string(head_dim / 2) + ") numbers");
  }
  rope.factors.clear();
  for (const Json& factor : factors) {
    const Json wrapped = {{"long_factor", factor}};
    FieldReader field(wrapped, fields.what());
    rope.factors.push_back(static_cast<float>(field.real("long_factor", 1e-6, 1e6)));
    OUTRIDER_RETURN_IF_ERROR(field.status());
  }
  return {};
}

// The object that transformers 4 calls rope_scaling and 5 calls rope_parameters.
Status read_rope_object(FieldReader& fields, std::int32_t head_dim, RopeConfig& rope) {
  const std::string old_type = fields.text("type", "default");
  const std::string type = fields.text("rope_type", old_type);
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  OUTRIDER_ASSIGN_OR_RETURN(rope.scaling, read_scaling(fields, type));
  if (fields.real("partial_rotary_factor", 0, 1, 1.0) != 1.0) {
    fields.fail(unimplemented(fields.what() + ": partial_rotary_factor is not supported"));
  }
  rope.theta = fields.real("rope_theta", 1.0, 1e12, rope.theta);
  if (rope.scaling == RopeScaling::kFactors) return read_factors(fields, head_dim, rope);
  if (rope.scaling != RopeScaling::kNone) rope.factor = fields.real("factor", 1.0, 1e6);
  if (fields.has("original_max_position_embeddings")) {
    rope.original_max_positions =
        fields.integer("original_max_position_embeddings", 1, kMaxPositions);
  }
  if (rope.scaling == RopeScaling::kLlama3) {
    rope.low_freq_factor = fields.real("low_freq_factor", 1e-6, 1e6);
    rope.high_freq_factor = fields.real("high_freq_factor", 1e-6, 1e6);
    if (rope.original_max_positions == 0) {
      fields.fail(
          invalid_argument(fields.what() + ": original_max_position_embeddings is missing"));
    }
    if (rope.low_freq_factor >= rope.high_freq_factor) {
      fields.fail(
          invalid_argument(fields.what() + ": low_freq_factor must be below high_freq_factor"));
    }
  }
  return fields.status();
}

Status read_rope(FieldReader& fields, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.theta = fields.real("rope_theta", 1.0, 1e12, rope.theta);
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(key)) continue;
    FieldReader nested(fields.object()[key], fields.what() + ": " + key);
    OUTRIDER_RETURN_IF_ERROR(read_rope_object(nested, config.head_dim, rope));
  }
  // Beyond the original length dynamic scaling would change the angles of earlier positions, which
  // a KV cache cannot follow.
  if (rope.scaling == RopeScaling::kDynamic && rope.original_max_positions > 0) {
    config.max_positions = std::min(config.max_positions, rope.original_max_positions);
  }
  return {};
}

// A window that is longer than any text counts as none.
Position effective_window(std::int64_t window, Position max_positions) {
  return window >= max_positions ? 0 : window;
}

Status read_layer_types(FieldReader& fields, const ModelFamily& family, Position window,
                        ModelConfig& config) {
  if (!fields.has("layer_types")) return {};
  const Json& types = fields.object()["layer_types"];
  if (!types.is_array() || types.size() != static_cast<std::size_t>(config.num_layers)) {
    return invalid_argument(fields.what() + ": layer_types must list num_hidden_layers (" +
                            std::to_string(config.num_layers) + ") entries");
  }
  for (std::size_t layer = 0; layer < types.size(); ++layer) {
    const bool sliding = types[layer] == "sliding_attention";
    if (!sliding && types[layer] != "full_attention") {
      return unimplemented(fields.what() + ": layer_types[" + std::to_string(layer) +
                           "] must be full_attention or sliding_attention");
    }
    const Position wanted = sliding ? window : 0;
    if (!family.layers_choose_window && wanted != config.windows[layer]) {
      return unimplemented(fields.what() + ": layer_types of a " + config.architecture +
                           " model must agree with sliding_window");
    }
    config.windows[layer] = wanted;
  }
  return {};
}

Status read_windows(FieldReader& fields, const ModelFamily& family, ModelConfig& config) {
  config.windows.assign(static_cast<std::size_t>(config.num_layers), 0);
  std::int64_t first_layer = config.num_layers;
  Position window = 0;
  // In transformers a mistral config without this field has a window; an explicit null means none.
  if (config.architecture == "mistral") {
    const bool silent = !fields.object().contains("sliding_window");
    if (silent || fields.has("sliding_window")) {
      window = fields.integer("sliding_window", 1, kMaxPositions, 4096);
      first_layer = 0;
    }
  } else if (family.layers_choose_window && fields.flag("use_sliding_window", false)) {
    window = fields.integer("sliding_window", 1, kMaxPositions, 4096);
    first_layer = fields.integer("max_window_layers", 0, kMaxLayers, 28);
  }
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  window = effective_window(window, config.max_positions);
  for (std::int64_t layer = first_layer; layer < config.num_layers; ++layer) {
    config.windows[static_cast<std::size_t>(layer)] = window;
  }
  return read_layer_types(fields, family, window, config);
}

Status read_shape(FieldReader& fields, const ModelFamily& family, ModelConfig& config) {
  const auto count = [&fields](const char* key, std::int64_t high,
                               std::optional<std::int64_t> absent = {}) {
    return static_cast<std::int32_t>(fields.integer(key, 1, high, absent));
  };
  config.vocab_size = count("vocab_size", kMaxVocab);
  config.hidden_size = count("hidden_size", kMaxHidden);
  config.intermediate_size = count("intermediate_size", kMaxIntermediate);
  config.num_layers = count("num_hidden_layers", kMaxLayers);
  config.num_heads = count("num_attention_heads", kMaxHeads);
  config.num_kv_heads =
      count("num_key_value_heads", kMaxHeads, family.num_kv_heads.value_or(config.num_heads));
  config.max_positions =
      fields.integer("max_position_embeddings", 1, kMaxPositions, family.max_positions);
  config.rms_norm_eps = fields.real("rms_norm_eps", 1e-12, 0.1, 1e-6);
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  if (config.num_heads % config.num_kv_heads != 0) {
    return invalid_argument(
        fields.what() + ": num_key_value_heads (" + std::to_string(config.num_kv_heads) +
        ") must divide num_attention_heads (" + std::to_string(config.num_heads) + ")");
  }
  if (!fields.has("head_dim") && !family.head_dim && config.hidden_size % config.num_heads != 0) {
    return invalid_argument(fields.what() + ": hidden_size (" + std::to_string(config.hidden_size) +
                            ") must be a multiple of num_attention_heads (" +
                            std::to_string(config.num_heads) + ") where head_dim is missing");
  }
  config.head_dim = static_cast<std::int32_t>(fields.integer(
      "head_dim", 2, kMaxHeadDim, family.head_dim.value_or(config.hidden_size / config.num_heads)));
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  // head_dim's default is not bounded yet.
  if (config.head_dim < 2 || config.head_dim > kMaxHeadDim || config.head_dim % 2 != 0) {
    return invalid_argument(fields.what() + ": head_dim is " + std::to_string(config.head_dim) +
                            ", must be even and from 2 to " + std::to_string(kMaxHeadDim));
  }
  return {};
}

void read_biases(FieldReader& fields, const ModelFamily& family, ModelConfig& config) {
  config.qkv_bias = family.qkv_bias;
  const bool attention_bias = fields.flag("attention_bias", false);
  if (family.may_have_attention_bias) config.qkv_bias = config.o_bias = attention_bias;
  if (family.may_have_mlp_bias) config.mlp_bias = fields.flag("mlp_bias", false);
  config.qk_norm = family.qk_norm;
}

Result<std::vector<TokenId>> read_stop_ids(const Json& object, const std::string& what,
                                           std::int32_t vocab_size) {
  std::vector<TokenId> ids;
  const auto found = object.is_object() ? object.find("eos_token_id") : object.end();
  if (!object.is_object()) return invalid_argument(what + ": must be a JSON object");
  if (found == object.end() || found->is_null()) return ids;
  const Json list = found->is_array() ? *found : Json::array({*found});
  if (std::cmp_greater(list.size(), kMaxStopIds)) {
    return invalid_argument(what + ": eos_token_id lists " + std::to_string(list.size()) +
                            " ids, at most " + std::to_string(kMaxStopIds));
  }
  for (const Json& entry : list) {
    const Json wrapped = {{"eos_token_id", entry}};
    FieldReader field(wrapped, what);
    ids.push_back(static_cast<TokenId>(field.integer("eos_token_id", 0, vocab_size - 1)));
    OUTRIDER_RETURN_IF_ERROR(field.status());
  }
  return ids;
}

// A field of ours: other programs ignore it and compute every logit.
Result<std::vector<TokenId>> read_head_tokens(const Json& object, const std::string& what,
                                              std::int32_t vocab_size) {
  std::vector<TokenId> tokens;
  const auto found = object.find("head_tokens");
  if (found == object.end() || found->is_null()) return tokens;
  if (!found->is_array() || found->empty()) {
    return invalid_argument(what + ": head_tokens must be a list of tokens, or left out for all");
  }
  for (const Json& entry : *found) {
    const std::int64_t least = tokens.empty() ? 0 : tokens.back() + 1;
    const bool fits = entry.is_number_integer() &&
                      (!entry.is_number_unsigned() || entry.get<std::uint64_t>() <= kMaxVocab);
    const std::int64_t token = fits ? entry.get<std::int64_t>() : -1;
    if (token < least || token >= vocab_size) {
      return invalid_argument(what + ": head_tokens[" + std::to_string(tokens.size()) + "] is " +
                              entry.dump().substr(0, 40) + ", must be a token from " +
                              std::to_string(least) + " to " + std::to_string(vocab_size - 1) +
                              ": the list must rise");
    }
    tokens.push_back(static_cast<TokenId>(token));
  }
  return tokens;
}

}  // namespace

Result<ModelConfig> parse_config(std::string_view text, const std::string& what) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, what));
  FieldReader fields(json, what);
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  OUTRIDER_ASSIGN_OR_RETURN(const ModelFamily* family, read_family(fields));
  OUTRIDER_RETURN_IF_ERROR(refuse_unsupported(fields));
  ModelConfig config;
  config.architecture = family->name;
  OUTRIDER_RETURN_IF_ERROR(read_shape(fields, *family, config));
  config.tied_embeddings = fields.flag("tie_word_embeddings", false);
  read_biases(fields, *family, config);
  OUTRIDER_RETURN_IF_ERROR(read_rope(fields, config));
  OUTRIDER_RETURN_IF_ERROR(read_windows(fields, *family, config));
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  OUTRIDER_ASSIGN_OR_RETURN(config.stop_ids, read_stop_ids(json, what, config.vocab_size));
  OUTRIDER_ASSIGN_OR_RETURN(config.head_tokens, read_head_tokens(json, what, config.vocab_size));
  return config;
}

Result<std::vector<TokenId>> parse_stop_ids(std::string_view text, const std::string& what,
                                            std::int32_t vocab_size) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, what));
  return read_stop_ids(json, what, vocab_size);
}

Result<ModelConfig> load_config_json(const std::string& directory) {
  const std::string path = directory + "/config.json";
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxConfigBytes));
  OUTRIDER_ASSIGN_OR_RETURN(ModelConfig config, parse_config(text, path));
  const std::string generation_path = directory + "/generation_config.json";
  Result<std::string> generation = read_file(generation_path, kMaxConfigBytes);
  if (!generation.ok()) {
    if (generation.status().code() == StatusCode::kNotFound) return config;
    return generation.status();
  }
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids,
                            parse_stop_ids(*generation, generation_path, config.vocab_size));
  if (!ids.empty()) config.stop_ids = std::move(ids);
  return config;
}

}  // namespace outrider
