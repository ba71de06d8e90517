// SPDX-License-Identifier: Apache-2.0
#include "common/serving/record/record.h"

#include <algorithm>

#include "common/base/json_record.h"
#include "common/base/sha256.h"
#include "common/serving/credentials/signing_key.h"

namespace outrider {
namespace {

constexpr std::string_view kSignatureField = R"(,"signature":")";
constexpr std::string_view kLineEnd = R"("})";

// The object with this field first, which JSON leaves open.
std::string line_from(const char* first, Json json) {
  const std::string begin = "{\"" + std::string(first) + "\":" + json[first].dump();
  json.erase(first);
  return begin + "," + json.dump(-1, ' ', false, Json::error_handler_t::replace).substr(1);
}

}  // namespace

ChoiceSettings RecordTerms::settings() const {
  ChoiceSettings settings{.presence_penalty = presence_penalty,
                          .frequency_penalty = frequency_penalty,
                          .repetition_penalty = repetition_penalty,
                          .min_tokens = min_tokens,
                          .bad_words = bad_words};
  for (const RecordBias& one : logit_bias) settings.logit_bias.push_back({one.token, one.bias});
  settings.constraint.spec = {static_cast<ConstraintKind>(constraint_kind), constraint};
  return settings;
}

RecordTerms record_terms(const Open& open, std::span<const TokenId> prompt) {
  const ChoiceSettings& settings = open.settings;
  RecordTerms terms{
      .tokenizer_hash = open.tokenizer_hash,
      .template_hash = open.template_hash,
      .noise_version = open.noise_version,
      .temperature = open.sampling.temperature,
      .top_k = open.sampling.top_k,
      .top_p = open.sampling.top_p,
      .min_p = open.sampling.min_p,
      .seed = open.seed,
      .presence_penalty = settings.presence_penalty,
      .frequency_penalty = settings.frequency_penalty,
      .repetition_penalty = settings.repetition_penalty,
      .min_tokens = settings.min_tokens,
      .bad_words = settings.bad_words,
      .constraint_kind = static_cast<std::uint32_t>(settings.constraint.spec.kind),
      .constraint = settings.constraint.spec.text,
      .stop_ids = open.stop_ids,
      .ignore_target_stops = open.ignore_target_stops,
      .end_position = open.end_position,
      .prompt_tokens = std::ssize(prompt),
      .prompt = std::vector<TokenId>(prompt.begin(), prompt.end()),
  };
  for (const LogitBias& one : settings.logit_bias) {
    terms.logit_bias.push_back({one.token, one.bias});
  }
  return terms;
}

std::string digest_text(std::uint64_t digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = text.size(); i > 0; --i, digest >>= 4) text[i - 1] = kDigits[digest & 15];
  return text;
}

std::string salted_hash(const std::string& salt, std::span<const TokenId> ids) {
  return line_hash(salt + " " + prefix_hash(ids));
}

std::string line_hash(std::string_view line) {
  Sha256 hash;
  hash.update(line);
  return hash.finish_hex();
}

std::string to_line(const RecordTerms& terms) {
  return line_from("outrider_record", write_json(terms));
}

std::string to_line(const RecordStretch& stretch) {
  return line_from("stretch", write_json(stretch));
}

std::string with_signature(std::string_view line, std::string_view signature) {
  std::string whole(line.substr(0, line.size() - 1));
  return whole.append(kSignatureField).append(signature).append(kLineEnd);
}

SignedLine without_signature(std::string_view line) {
  constexpr std::size_t kBehind = kSignatureDigits + kLineEnd.size();
  constexpr std::size_t kAdded = kSignatureField.size() + kBehind;
  const bool has_one = line.size() > kAdded && line.ends_with(kLineEnd) &&
                       line.substr(line.size() - kAdded).starts_with(kSignatureField);
  if (!has_one) return {std::string(line), {}};
  return {std::string(line.substr(0, line.size() - kAdded)) + "}",
          std::string(line.substr(line.size() - kBehind, kSignatureDigits))};
}

std::string signed_text(std::string_view line) {
  return "outrider record " + std::to_string(kRecordVersion) + "\n" + std::string(line);
}

}  // namespace outrider
