// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/idle_fields.h"

#include <algorithm>
#include <array>
#include <vector>

namespace outrider {
namespace {

constexpr std::array<std::string_view, 25> kIgnored = {
    // about the client, and about how an answer is stored or billed
    "user", "metadata", "store", "safety_identifier", "prompt_cache_key", "priority", "request_id",
    "cache_control", "prompt_cache_retention", "id_slot", "slot_id", "cache_prompt", "keep_alive",
    // how strong something is that is off unless another field, which is refused, turns it on
    "repeat_last_n", "penalty_last_n", "mirostat_tau", "mirostat_eta", "dry_base",
    "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers", "xtc_threshold",
    "dynatemp_exponent", "min_keep", "early_stopping"};

}  // namespace

std::span<const IdleValue> idle_values() {
  static const std::vector<IdleValue> kValues = {
      {"length_penalty", 1},
      {"typical_p", 1},
      {"tfs_z", 1},
      {"top_a", 0},
      {"top_n_sigma", -1},
      {"mirostat", 0},
      {"dry_multiplier", 0},
      {"xtc_probability", 0},
      {"dynatemp_range", 0},
      {"n_probs", 0},
      {"n_keep", 0},
      {"n_indent", 0},
      {"t_max_predict_ms", 0},
      {"echo", false},
      {"use_beam_search", false},
      {"include_stop_str_in_output", false},
      {"return_tokens_as_token_ids", false},
      {"return_token_ids", false},
      {"return_tokens", false},
      {"timings_per_token", false},
      {"post_sampling_probs", false},
      {"continue_final_message", false},
      {"skip_special_tokens", true},
      {"spaces_between_special_tokens", true},
      {"add_generation_prompt", true},
      {"function_call", "none"},
      {"function_call", "auto"},
      {"suffix", ""},
      {"verbosity", "medium"},
      {"truncation", "disabled"},
      {"background", false},
      {"modalities", Json::array({"text"})},
  };
  return kValues;
}

bool asks_for_nothing(std::string_view field, const Json& value) {
  constexpr std::array<std::string_view, 4> kLists = {"tools", "functions", "lora", "documents"};
  if (value.is_structured() && value.empty()) {
    return std::ranges::find(kLists, field) != kLists.end();
  }
  return std::ranges::any_of(idle_values(), [&](const IdleValue& idle) {
    return field == idle.field && value == idle.value;
  });
}

std::span<const std::string_view> ignored_fields() {
  return kIgnored;
}

bool cannot_change_text(std::string_view field) {
  return std::ranges::find(kIgnored, field) != kIgnored.end();
}

}  // namespace outrider
