// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/request/sampling_defaults.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/base/json.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxConfigBytes = std::int64_t{1} << 20;

void append(std::string& list, const std::string& entry) {
  list.append(list.empty() ? "" : ", ").append(entry);
}

void append_number(std::string& list, const char* name, std::optional<double> value) {
  if (!value) return;
  char text[48];
  std::snprintf(text, sizeof text, "%s %.6g", name, *value);
  append(list, text);
}

template <typename Number>
std::optional<double> to_double(const std::optional<Number>& value) {
  return value ? std::optional<double>(*value) : std::nullopt;
}

// A finite number from least to most; nothing: it is none.
std::optional<double> number_of(const Json& value, double least, double most) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= least && number <= most)) return std::nullopt;
  return number;
}

// Fields that change the text, and the value with which they do not.
const std::array<std::pair<const char*, Json>, 17>& unsupported_fields() {
  static const std::array<std::pair<const char*, Json>, 17> kFields = {{
      {"repetition_penalty", 1},
      {"encoder_repetition_penalty", 1},
      {"presence_penalty", 0},
      {"frequency_penalty", 0},
      {"no_repeat_ngram_size", 0},
      {"typical_p", 1},
      {"epsilon_cutoff", 0},
      {"eta_cutoff", 0},
      {"penalty_alpha", 0},
      {"num_beams", 1},
      {"min_length", 0},
      {"min_new_tokens", 0},
      {"max_new_tokens", nullptr},
      {"bad_words_ids", nullptr},
      {"suppress_tokens", nullptr},
      {"begin_suppress_tokens", nullptr},
      {"sequence_bias", nullptr},
  }};
  return kFields;
}

std::string left_out(const std::string& field, const Json& value) {
  constexpr std::size_t kShort = 40;
  const std::string shown = value.dump(-1, ' ', true);
  return field + (shown.size() > kShort ? "" : " " + shown);
}

}  // namespace

bool SamplingDefaults::is_whole() const {
  return temperature == 0.0f || (temperature && top_k && top_p && min_p);
}

SamplingParams with_defaults(SamplingParams standing, const SamplingDefaults& said) {
  standing.temperature = said.temperature.value_or(standing.temperature);
  standing.top_k = said.top_k.value_or(standing.top_k);
  standing.top_p = said.top_p.value_or(standing.top_p);
  standing.min_p = said.min_p.value_or(standing.min_p);
  return standing;
}

SamplingDefaults all_of(const SamplingParams& sampling) {
  return {sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p};
}

std::string to_text(const SamplingDefaults& said) {
  std::string text;
  append_number(text, "temperature", to_double(said.temperature));
  append_number(text, "top_k", to_double(said.top_k));
  append_number(text, "top_p", to_double(said.top_p));
  append_number(text, "min_p", to_double(said.min_p));
  return text;
}

std::string GenerationDefaults::about() const {
  if (sampling.empty() && left_out.empty()) return {};
  return (sampling.empty() ? "as requests say" : to_text(sampling)) + " (" + kGenerationConfigFile +
         (left_out.empty() ? ")" : "; left out: " + left_out + ")");
}

Result<GenerationDefaults> parse_generation_defaults(std::string_view text,
                                                     const std::string& what) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, what));
  if (!json.is_object()) return data_loss(what + ": must be a JSON object");
  GenerationDefaults defaults;
  const auto read = [&](const char* name, double least, double most) -> std::optional<double> {
    const Json value = json.value(name, Json());
    const std::optional<double> number = number_of(value, least, most);
    if (!number && !value.is_null()) append(defaults.left_out, left_out(name, value));
    return number;
  };
  const auto as_float = [](std::optional<double> number) {
    return number ? std::optional(static_cast<float>(*number)) : std::nullopt;
  };
  SamplingDefaults& sampling = defaults.sampling;
  sampling.temperature = as_float(read("temperature", 0, 100));
  sampling.top_p = as_float(read("top_p", 0, 1));
  sampling.min_p = as_float(read("min_p", 0, 1));
  constexpr double kMaxTopK = std::numeric_limits<std::int32_t>::max();
  if (const auto top_k = read("top_k", -1, kMaxTopK)) {  // -1: all
    sampling.top_k = static_cast<std::int32_t>(std::max(*top_k, 0.0));
  }
  const Json do_sample = json.value("do_sample", Json());
  if (do_sample == false) sampling = {.temperature = 0.0f};
  if (do_sample == true && !sampling.temperature) sampling.temperature = 1.0f;
  for (const auto& [name, idle] : unsupported_fields()) {
    const Json value = json.value(name, Json());
    const bool is_empty = value.is_null() || (value.is_structured() && value.empty());
    if (!is_empty && value != idle) append(defaults.left_out, left_out(name, value));
  }
  return defaults;
}

Result<GenerationDefaults> read_generation_defaults(const std::string& model) {
  const std::filesystem::path path = std::filesystem::path(model) / kGenerationConfigFile;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return GenerationDefaults();
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path.string(), kMaxConfigBytes));
  return parse_generation_defaults(text, path.string());
}

}  // namespace outrider
