// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/protocol/messages.h"

#include <type_traits>

#include "common/base/sha256.h"

namespace outrider {
namespace {

// The memory that a value holds beside its own size. Structs are taken apart by structured
// bindings, which name every field or do not compile: a new field cannot be forgotten.
struct HeldBytes {
  template <typename Field>
  requires std::is_trivially_copyable_v<Field> std::size_t operator()(
      const Field& /*field*/) const {
    return 0;
  }
  std::size_t operator()(const std::string& text) const { return text.size(); }
  template <typename Element>
  std::size_t operator()(const std::vector<Element>& list) const {
    std::size_t bytes = list.size() * sizeof(Element);
    for (const Element& element : list) bytes += (*this)(element);
    return bytes;
  }
  std::size_t operator()(const Open& open) const {
    const auto& [protocol_version, noise_version, tokenizer_hash, sampling, seed, prefix,
                 end_position, policy, stop_ids, expected_fingerprint, expected_arithmetic_id,
                 replaced_session, session_key, prefix_length, prefix_hash, accept_other_arithmetic,
                 pad_frames, template_hash, ignore_target_stops, service_tier, accepts_server_nodes,
                 settings, answer_begin, top_logprobs, prompt_logprobs, wants_digests, level] =
        open;
    return all(protocol_version, noise_version, tokenizer_hash, sampling, seed, prefix,
               end_position, policy, stop_ids, expected_fingerprint, expected_arithmetic_id,
               replaced_session, session_key, prefix_length, prefix_hash, accept_other_arithmetic,
               pad_frames, template_hash, ignore_target_stops, service_tier, accepts_server_nodes,
               settings, answer_begin, top_logprobs, prompt_logprobs, wants_digests, level);
  }
  std::size_t operator()(const ChoiceSettings& settings) const {
    const auto& [presence, frequency, repetition, biases, min_tokens, bad_words, constraint] =
        settings;
    return all(presence, frequency, repetition, biases, min_tokens, bad_words, constraint);
  }
  // A compiled form belongs to all who share it.
  std::size_t operator()(const AnswerConstraint& constraint) const {
    const auto& [spec, compiled] = constraint;
    const auto& [kind, text] = spec;
    return all(kind, text);
  }
  std::size_t operator()(const Grow& grow) const {
    const auto& [first_id, anchor_position, nodes, candidates] = grow;
    return all(first_id, anchor_position, nodes, candidates);
  }
  std::size_t operator()(const CandidateSet& set) const {
    const auto& [node, candidates] = set;
    return all(node, candidates);
  }
  std::size_t operator()(const Prefix& prefix) const {
    const auto& [ids] = prefix;
    return all(ids);
  }

 private:
  template <typename... Fields>
  std::size_t all(const Fields&... fields) const {
    return (std::size_t{0} + ... + (*this)(fields));
  }
};

}  // namespace

void Open::set_settings(const ChoiceSettings& asked, Position begin) {
  settings = asked;
  const bool change = !settings.change_nothing();
  noise_version = change ? kAdjustedNoiseVersion : kNoiseVersion;
  if (settings.constraint.asks()) noise_version = kConstrainedNoiseVersion;
  answer_begin = change ? begin : 0;
}

std::size_t size_in_memory(const EdgeMessage& message) {
  return sizeof(EdgeMessage) + std::visit(HeldBytes{}, message.body);
}

std::string prefix_hash(std::span<const TokenId> ids) {
  std::string bytes;
  bytes.reserve(4 * ids.size());
  for (const TokenId id : ids) {
    auto rest = static_cast<std::uint32_t>(id);
    for (int i = 0; i < 4; ++i, rest >>= 8) bytes.push_back(static_cast<char>(rest & 0xff));
  }
  Sha256 hash;
  hash.update(bytes);
  return hash.finish_hex();
}

}  // namespace outrider
