// SPDX-License-Identifier: Apache-2.0
#include "common/verify/open_check.h"

#include <chrono>
#include <cstdint>
#include <span>

namespace outrider {
namespace {

Status check_same(std::string_view field, const std::string& ours, const std::string& theirs) {
  if (ours == theirs) return {};
  return failed_precondition("Open." + std::string(field) + ": \"" + theirs +
                             "\"; this verifier has \"" + ours + "\"");
}

Status check_version(std::string_view field, std::uint32_t ours, std::uint32_t theirs) {
  if (ours == theirs) return {};
  return failed_precondition("Open." + std::string(field) + ": " + std::to_string(theirs) +
                             "; this verifier speaks " + std::to_string(ours) + " to " +
                             std::to_string(ours));
}

Status check_tokens(std::string_view field, std::span<const TokenId> tokens, TokenId vocab_size) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab_size) continue;
    return invalid_argument("Open." + std::string(field) + "[" + std::to_string(i) +
                            "]: " + std::to_string(tokens[i]) + "; expected 0 to " +
                            std::to_string(vocab_size - 1));
  }
  return {};
}

// Expected values are compared only if given.
Status check_identity(const Open& open, const Target& target) {
  OUTRIDER_RETURN_IF_ERROR(
      check_version("protocol_version", kProtocolVersion, open.protocol_version));
  OUTRIDER_RETURN_IF_ERROR(check_version("noise_version", kNoiseVersion, open.noise_version));
  OUTRIDER_RETURN_IF_ERROR(
      check_same("tokenizer_hash", target.tokenizer_hash, open.tokenizer_hash));
  if (!open.expected_fingerprint.empty()) {
    OUTRIDER_RETURN_IF_ERROR(
        check_same("expected_fingerprint", target.model.fingerprint, open.expected_fingerprint));
  }
  if (!open.expected_arithmetic_id.empty() && !open.accept_other_arithmetic) {
    OUTRIDER_RETURN_IF_ERROR(check_same("expected_arithmetic_id", target.model.arithmetic_id,
                                        open.expected_arithmetic_id));
  }
  return {};
}

bool is_hex(const std::string& text) {
  return text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Status check_hex(std::string_view field, const std::string& value, std::size_t digits) {
  if (value.empty() || (value.size() == digits && is_hex(value))) return {};
  return invalid_argument("Open." + std::string(field) + ": " + printable(value) + "; expected " +
                          std::to_string(digits) + " lower-case hex digits");
}

Status check_length(std::string_view field, Position length, const Target& target) {
  if (length < target.limits.max_positions) return {};
  return invalid_argument("Open." + std::string(field) + ": " + std::to_string(length) +
                          " tokens; this verifier's context holds " +
                          std::to_string(target.limits.max_positions) + ", the answer included");
}

}  // namespace

Status check_open_head(const Open& open, const Target& target) {
  OUTRIDER_RETURN_IF_ERROR(check_identity(open, target));
  OUTRIDER_RETURN_IF_ERROR(check_hex("session_key", open.session_key, kSessionKeyDigits));
  OUTRIDER_RETURN_IF_ERROR(check_hex("prefix_hash", open.prefix_hash, 64));
  if (open.prefix_length > 0 && !open.prefix.empty()) {
    return invalid_argument("Open.prefix_length: " + std::to_string(open.prefix_length) +
                            " beside a prefix of " + std::to_string(open.prefix.size()) +
                            "; expected one of the two");
  }
  if (open.prefix_length == 0 && !open.prefix_hash.empty()) {
    return invalid_argument("Open.prefix_hash: without prefix_length");
  }
  return check_length("prefix_length", open.prefix_length, target);
}

Status check_open(const Open& open, const Target& target) {
  OUTRIDER_RETURN_IF_ERROR(check_open_head(open, target));
  if (Status status = validate(open.sampling); !status.ok()) {
    return status.with_context("Open.sampling");
  }
  const auto length = static_cast<Position>(open.prefix.size());
  if (length == 0) {
    return invalid_argument(
        "Open.prefix: empty; expected at least one token, such as the beginning-of-text token");
  }
  OUTRIDER_RETURN_IF_ERROR(check_length("prefix", length, target));
  if (open.end_position <= length) {
    return invalid_argument("Open.end_position: " + std::to_string(open.end_position) +
                            "; expected more than the prefix's " + std::to_string(length));
  }
  OUTRIDER_RETURN_IF_ERROR(check_tokens("prefix", open.prefix, target.limits.vocab_size));
  OUTRIDER_RETURN_IF_ERROR(check_tokens("stop_ids", open.stop_ids, target.limits.vocab_size));
  return check_policy(open.policy);
}

Status check_policy(const Policy& policy) {
  if (policy.pass_policy != PassPolicy::kOnRequest && policy.pass_policy != PassPolicy::kEager) {
    return invalid_argument(
        "Policy.pass_policy: " + std::to_string(static_cast<int>(policy.pass_policy)) +
        "; expected 0 (on request) or 1 (eager)");
  }
  if (policy.patience < Duration{0} || policy.patience > kMaxPatience) {
    const auto ms = [](Duration d) {
      return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
    };
    return invalid_argument("Policy.patience: " + ms(policy.patience) + " ms; expected 0 to " +
                            ms(kMaxPatience) + " ms");
  }
  return {};
}

}  // namespace outrider
