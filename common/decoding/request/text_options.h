// The options of an answer: how its tokens are chosen, what ends it, and how urgent it is. A
// command's flags, a request over HTTP, a check or a test fill it.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/enum_names.h"
#include "common/engine/sampling/sampling.h"

namespace outrider {

// How urgent an answer is beside others on the same server: priority before default before flex.
enum class ServiceTier : std::uint8_t { kDefault, kPriority, kFlex };

template <>
inline constexpr auto enum_names<ServiceTier> =
    std::to_array<EnumName<ServiceTier>>({{ServiceTier::kDefault, "default"},
                                          {ServiceTier::kPriority, "priority"},
                                          {ServiceTier::kFlex, "flex"}});

struct TextOptions {
  TokenChoice choice = {};
  bool draws_seed = false;       // settle_seed() draws choice.seed
  std::int64_t max_tokens = -1;  // -1: until a stop or the end of the context
  std::vector<std::string> stop = {};
  std::vector<std::string> bad_words = {};  // beside those of choice.settings, as texts
  // Log-probabilities are wanted, with so many of the likeliest tokens. Nothing: they are not.
  std::optional<std::uint32_t> top_logprobs = {};
  bool prompt_logprobs = false;              // with these, those of the prompt's tokens, too
  bool ignore_eos = false;                   // the model's stop tokens do not end it
  std::vector<TokenId> stop_token_ids = {};  // they end it as well
  ServiceTier service_tier = ServiceTier::kDefault;
};

// The tokens that end an answer whose prompt, in its model's form, ends at `of_prompt`.
std::vector<TokenId> all_stop_ids(const TextOptions& text, std::vector<TokenId> of_prompt);

// Draws the seed of an answer for which none was given, once, before its first Open. It is less
// than 2^53, which every program that reads JSON reads exactly. Without noise (temperature 0) no
// seed is drawn.
void settle_seed(TextOptions& text);

// The seed by which an answer can be repeated; nothing: its temperature is 0, so none matters.
std::optional<std::uint64_t> told_seed(const TokenChoice& choice);

}  // namespace outrider
