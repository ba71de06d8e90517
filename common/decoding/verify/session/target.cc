// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/session/target.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <string_view>

#include "common/decoding/exits/exit_heads.h"
#include "common/decoding/verify/session/pass_plan.h"

namespace outrider {
namespace {

std::vector<std::int32_t> exit_layers(const SchedulerOptions& options) {
  if (options.exits == nullptr) return {};
  const auto layers = options.exits->layers();
  return {layers.begin(), layers.end()};
}

// Those that an honest edge may come to are written for its user; the others name the field, for
// those who write an edge.
Status check_same(std::string_view sentence, const std::string& ours, const std::string& theirs) {
  if (ours == theirs) return {};
  const auto shown = [](const std::string& value) {
    return value.empty() ? std::string("none") : "\"" + value + "\"";
  };
  return failed_precondition(std::string(sentence) + " (the edge's: " + shown(theirs) +
                             ", here: " + shown(ours) + ")");
}

Status check_version(std::string_view what, std::uint32_t theirs, std::uint32_t first,
                     std::uint32_t last) {
  if (theirs >= first && theirs <= last) return {};
  return failed_precondition("the edge speaks version " + std::to_string(theirs) + " of " +
                             std::string(what) + ", and here versions " + std::to_string(first) +
                             " to " + std::to_string(last) +
                             " are spoken. Remedy: edge and server of one release");
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

// A prompt in another model's form would be answered, and badly.
Status check_template(const std::string& ours, const std::string& theirs) {
  if (theirs.empty() || ours == theirs) return {};
  return failed_precondition(
      "the prompt was written by the chat template \"" + theirs + "\", and the target's is " +
      (ours.empty() ? std::string("none") : "\"" + ours + "\"") +
      ". Remedy: ask again, so that the edge reads the target's; or name one with --chat-template");
}

// A version that says less than the settings do would be a peer's that does not know them.
Status check_settings(const Open& open, const Target& target) {
  if (Status status = validate(open.settings, target.limits.vocab_size); !status.ok()) {
    return status.with_context("settings");
  }
  const AnswerConstraint& constraint = open.settings.constraint;
  const std::uint32_t needed = constraint.asks() ? kConstrainedNoiseVersion : kAdjustedNoiseVersion;
  if (!open.settings.change_nothing() && open.noise_version != needed) {
    return invalid_argument("Open.settings: they need noise_version " + std::to_string(needed) +
                            ", and it is " + std::to_string(open.noise_version));
  }
  if (constraint.asks() && constraint.compiled == nullptr) {
    return unimplemented(
        "a constraint on the answer's form: this verifier cannot hold answers to one. Remedy: a "
        "server whose target has a tokenizer, and that was built with grammars");
  }
  if (constraint.asks() && make_end_rule(open, target).stop_ids.empty()) {
    return invalid_argument(
        "a constraint needs a token that ends the answer at the form's end. Remedy: leave "
        "ignore_eos out, or name one in stop_token_ids");
  }
  const auto length = static_cast<Position>(open.prefix.size());
  if (open.answer_begin >= 0 && open.answer_begin <= length) return {};
  return invalid_argument("Open.answer_begin: " + std::to_string(open.answer_begin) +
                          "; expected 0 to the length of the prefix, " + std::to_string(length));
}

Status check_logprobs(const Open& open) {
  const std::uint32_t top = open.top_logprobs.value_or(0);
  if (top > kMaxTopLogprobs) {
    return invalid_argument("top_logprobs = " + std::to_string(top) +
                            " is too many. Remedy: ask for at most " +
                            std::to_string(kMaxTopLogprobs));
  }
  if (!open.prompt_logprobs) return {};
  if (!open.top_logprobs) {
    return invalid_argument("Open.prompt_logprobs: without top_logprobs; expected both");
  }
  if (prompt_logprobs_of(open.prefix.size(), top) <= kMaxPromptLogprobs) return {};
  return invalid_argument("log-probabilities of a prompt of " + std::to_string(open.prefix.size()) +
                          " tokens, each with " + std::to_string(top) +
                          " of the likeliest, are more than " + std::to_string(kMaxPromptLogprobs) +
                          ". Remedy: a shorter prompt, or fewer of the likeliest");
}

// Expected values are compared only if given.
Status check_identity(const Open& open, const Target& target) {
  OUTRIDER_RETURN_IF_ERROR(check_version("Outrider's protocol", open.protocol_version,
                                         kProtocolVersion, kProtocolVersion));
  OUTRIDER_RETURN_IF_ERROR(check_version("the noise that chooses tokens", open.noise_version,
                                         kNoiseVersion, kConstrainedNoiseVersion));
  OUTRIDER_RETURN_IF_ERROR(check_same(
      "the tokenizer of the draft, or of --tokenizer, is not that of the target, so that one "
      "token means two texts; name the target's tokenizer with --tokenizer, and a draft of another "
      "one drafts by text",
      target.tokenizer_hash, open.tokenizer_hash));
  OUTRIDER_RETURN_IF_ERROR(check_template(target.template_hash, open.template_hash));
  if (!open.expected_fingerprint.empty()) {
    OUTRIDER_RETURN_IF_ERROR(
        check_same("the target is another model than the one that began this answer, by its "
                   "fingerprint",
                   target.model.fingerprint, open.expected_fingerprint));
  }
  if (!open.expected_arithmetic_id.empty() && !open.accept_other_arithmetic) {
    OUTRIDER_RETURN_IF_ERROR(
        check_same("the target computes with another arithmetic than the one that began "
                   "this answer; --accept-other-arithmetic goes on with it",
                   target.model.arithmetic_id, open.expected_arithmetic_id));
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

Status check_length(Position length, const Target& target) {
  if (length < target.limits.max_positions) return {};
  return invalid_argument("the prompt has " + std::to_string(length) +
                          " tokens, and the target's context holds " +
                          std::to_string(target.limits.max_positions) +
                          ", the answer included. Remedy: shorten the prompt")
      .with_detail({.reason = "context_length_exceeded", .field = {}});
}

}  // namespace

Target make_target(const ModelInfo& model, const SchedulerOptions& options) {
  const Position max_positions = options.max_positions > 0
                                     ? std::min(options.max_positions, model.max_positions)
                                     : model.max_positions;
  return {.model = model,
          .tokenizer_hash = options.tokenizer_hash,
          .limits = {.max_nodes = std::max(options.max_nodes, Limits{}.max_nodes),
                     .max_rows = std::max(options.max_rows, 1u),
                     .run_ahead = std::max(options.run_ahead, 1u),
                     .max_message_bytes = options.max_message_bytes,
                     .max_positions = max_positions,
                     .vocab_size = model.vocab_size,
                     .max_patience = kMaxPatience,
                     .open_timeout = options.open_timeout,
                     .idle_timeout = options.idle_timeout,
                     .pass_limit = options.pass_limit},
          .exits = exit_layers(options),
          .template_hash = options.template_hash,
          .draft_source = options.draft_source,
          .drafts_forms = options.drafts_forms};
}

std::vector<Target> make_targets(const ModelInfo& model, const SchedulerOptions& options) {
  const auto level_of = [](const std::string& name) {
    const std::size_t at = name.rfind('@');
    return at == std::string::npos ? std::string() : name.substr(at + 1);
  };
  std::vector<Target> targets = {make_target(model, options)};
  targets[0].level = level_of(options.levels.empty() ? model.name : options.levels[0].name);
  for (std::size_t i = 1; i < options.levels.size(); ++i) {
    targets.push_back(make_target(options.levels[i], options));
    targets[i].level = level_of(options.levels[i].name);
    targets[i].exits.clear();
  }
  return targets;
}

Result<std::size_t> find_level(std::span<const Target> targets, const std::string& level) {
  if (level.empty()) return std::size_t{0};
  std::string known;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].level == level) return i;
    if (!targets[i].level.empty()) known += (known.empty() ? "" : ", ") + targets[i].level;
  }
  return failed_precondition("the target has no level " + printable(level) +
                             (known.empty() ? ", and no other" : "; it has " + known) +
                             ". Remedy: --level with one that it has, or none");
}

std::int32_t cache_capacity(const Limits& limits) {
  const Position slots = limits.max_positions + limits.max_rows;
  return static_cast<std::int32_t>(
      std::min<Position>(slots, std::numeric_limits<std::int32_t>::max()));
}

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
  return check_length(open.prefix_length, target);
}

Status check_open(const Open& open, const Target& target) {
  OUTRIDER_RETURN_IF_ERROR(check_open_head(open, target));
  if (Status status = validate(open.sampling); !status.ok()) {
    return status.with_context("sampling");
  }
  const auto length = static_cast<Position>(open.prefix.size());
  if (length == 0) {
    return invalid_argument(
        "the prompt is empty; expected at least one token, such as the beginning-of-text token");
  }
  OUTRIDER_RETURN_IF_ERROR(check_length(length, target));
  if (open.end_position <= length) {
    return invalid_argument("an answer that ends at position " + std::to_string(open.end_position) +
                            " behind a prompt of " + std::to_string(length) +
                            " tokens has no token");
  }
  OUTRIDER_RETURN_IF_ERROR(check_tokens("prefix", open.prefix, target.limits.vocab_size));
  OUTRIDER_RETURN_IF_ERROR(check_tokens("stop_ids", open.stop_ids, target.limits.vocab_size));
  OUTRIDER_RETURN_IF_ERROR(check_settings(open, target));
  OUTRIDER_RETURN_IF_ERROR(check_logprobs(open));
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
