// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/config.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/base/files.h"
#include "common/engine/model/format/config_readers.h"

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

Status read_shape(FieldReader& fields, const ModelFamily& family, ModelConfig& config) {
  const auto count = [&fields](const char* key, std::int64_t high,
                               std::optional<std::int64_t> absent = {}) {
    return static_cast<std::int32_t>(fields.integer(key, 1, high, absent));
  };
  const ConfigNames& names = family.names;
  config.vocab_size = count("vocab_size", kMaxVocab);
  config.hidden_size = count(names.hidden, kMaxHidden);
  // GPT-2's may be missing.
  std::optional<std::int64_t> inner;
  if (config.architecture == "gpt2") inner = 4 * std::int64_t{config.hidden_size};
  config.intermediate_size = count(names.inner, kMaxIntermediate, inner);
  config.num_layers = count(names.layers, kMaxLayers);
  config.num_heads = count(names.heads, kMaxHeads);
  config.num_kv_heads =
      count("num_key_value_heads", kMaxHeads, family.num_kv_heads.value_or(config.num_heads));
  config.max_positions = fields.integer(names.positions, 1, kMaxPositions, family.max_positions);
  config.rms_norm_eps = fields.real(names.epsilon, 1e-12, 0.1, family.epsilon);
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  if (config.num_heads % config.num_kv_heads != 0) {
    return invalid_argument(fields.what() + ": num_key_value_heads (" +
                            std::to_string(config.num_kv_heads) + ") must divide " + names.heads +
                            " (" + std::to_string(config.num_heads) + ")");
  }
  if (!fields.has("head_dim") && !family.head_dim && config.hidden_size % config.num_heads != 0) {
    return invalid_argument(fields.what() + ": " + names.hidden + " (" +
                            std::to_string(config.hidden_size) + ") must be a multiple of " +
                            names.heads + " (" + std::to_string(config.num_heads) +
                            ") where head_dim is missing");
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
  ModelConfig config;
  config.architecture = family->name;
  OUTRIDER_RETURN_IF_ERROR(read_quantization(fields, config));
  OUTRIDER_RETURN_IF_ERROR(read_shape(fields, *family, config));
  config.tied_embeddings = fields.flag("tie_word_embeddings", family->tied_embeddings);
  OUTRIDER_RETURN_IF_ERROR(read_kinds(fields, *family, config));
  OUTRIDER_RETURN_IF_ERROR(read_rope(fields, *family, config));
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
