// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/choice_settings.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace outrider {
namespace {

constexpr float kMaxPenalty = 2.0f;
constexpr float kMinRepetition = 0.01f;
constexpr float kMaxRepetition = 100.0f;
constexpr float kMaxBias = 100.0f;

Status check_range(const std::string& name, float value, float lowest, float highest) {
  if (std::isfinite(value) && value >= lowest && value <= highest) return {};
  return invalid_argument(name + " = " + std::to_string(value) + " is out of range. Remedy: use " +
                          std::to_string(lowest) + " to " + std::to_string(highest));
}

Status check_count(const std::string& name, std::size_t count, std::size_t most) {
  if (count <= most) return {};
  return invalid_argument(name + " has " + std::to_string(count) +
                          " entries. Remedy: give at most " + std::to_string(most));
}

Status check_token(const std::string& name, TokenId token, std::int32_t vocab_size) {
  if (token >= 0 && (vocab_size == 0 || token < vocab_size)) return {};
  const std::string most = vocab_size == 0 ? "" : " to " + std::to_string(vocab_size - 1);
  return invalid_argument(name + ": token " + std::to_string(token) +
                          " is not in the vocabulary. Remedy: use ids from 0" + most);
}

Status check_biases(const std::vector<LogitBias>& biases, std::int32_t vocab_size) {
  OUTRIDER_RETURN_IF_ERROR(check_count("logit_bias", biases.size(), ChoiceSettings::kMaxBiases));
  std::vector<TokenId> tokens;
  for (const LogitBias& one : biases) {
    OUTRIDER_RETURN_IF_ERROR(check_token("logit_bias", one.token, vocab_size));
    OUTRIDER_RETURN_IF_ERROR(check_range("logit_bias of token " + std::to_string(one.token),
                                         one.bias, -kMaxBias, kMaxBias));
    tokens.push_back(one.token);
  }
  std::ranges::sort(tokens);
  const auto twice = std::ranges::adjacent_find(tokens);
  if (twice == tokens.end()) return {};
  return invalid_argument("logit_bias has token " + std::to_string(*twice) +
                          " twice. Remedy: give one bias for each token");
}

Status check_bad_words(const std::vector<std::vector<TokenId>>& words, std::int32_t vocab_size) {
  OUTRIDER_RETURN_IF_ERROR(check_count("bad_words", words.size(), ChoiceSettings::kMaxBadWords));
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = "bad_words[" + std::to_string(i) + "]";
    if (words[i].empty()) {
      return invalid_argument(name + " has no token. Remedy: leave it out");
    }
    OUTRIDER_RETURN_IF_ERROR(check_count(name, words[i].size(), ChoiceSettings::kMaxBadWordTokens));
    for (const TokenId token : words[i]) {
      OUTRIDER_RETURN_IF_ERROR(check_token(name, token, vocab_size));
    }
  }
  return {};
}

}  // namespace

Status validate(const ChoiceSettings& settings, std::int32_t vocab_size) {
  OUTRIDER_RETURN_IF_ERROR(
      check_range("presence_penalty", settings.presence_penalty, -kMaxPenalty, kMaxPenalty));
  OUTRIDER_RETURN_IF_ERROR(
      check_range("frequency_penalty", settings.frequency_penalty, -kMaxPenalty, kMaxPenalty));
  OUTRIDER_RETURN_IF_ERROR(check_range("repetition_penalty", settings.repetition_penalty,
                                       kMinRepetition, kMaxRepetition));
  OUTRIDER_RETURN_IF_ERROR(check_biases(settings.logit_bias, vocab_size));
  if (settings.min_tokens < 0) {
    return invalid_argument("min_tokens = " + std::to_string(settings.min_tokens) +
                            " is negative. Remedy: use 0, or how many tokens come at least");
  }
  const std::size_t form = settings.constraint.spec.text.size();
  if (form > ConstraintSpec::kMaxBytes) {
    return invalid_argument("constraint: its text has " + std::to_string(form) +
                            " bytes. Remedy: give at most " +
                            std::to_string(ConstraintSpec::kMaxBytes));
  }
  return check_bad_words(settings.bad_words, vocab_size);
}

}  // namespace outrider
