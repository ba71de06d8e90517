// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/protocol/messages.h"

#include "common/base/sha256.h"

namespace outrider {
namespace {

struct SizeOfBody {
  std::size_t operator()(const Open& open) const {
    return (open.prefix.size() + open.stop_ids.size()) * sizeof(TokenId) +
           open.tokenizer_hash.size() + open.expected_fingerprint.size() +
           open.expected_arithmetic_id.size() + open.replaced_session.size() +
           open.session_key.size() + open.prefix_hash.size() + (*this)(open.settings);
  }
  std::size_t operator()(const ChoiceSettings& settings) const {
    std::size_t bytes = settings.logit_bias.size() * sizeof(LogitBias);
    bytes += settings.constraint.spec.text.size();
    for (const std::vector<TokenId>& word : settings.bad_words) {
      bytes += sizeof(word) + word.size() * sizeof(TokenId);
    }
    return bytes;
  }
  std::size_t operator()(const Grow& grow) const {
    std::size_t bytes = grow.nodes.size() * sizeof(GrowNode);
    for (const CandidateSet& set : grow.candidates) {
      bytes += sizeof(set) + set.candidates.size() * sizeof(DraftCandidate);
    }
    return bytes;
  }
  std::size_t operator()(const Policy&) const { return 0; }
  std::size_t operator()(const Cancel&) const { return 0; }
  std::size_t operator()(const Prefix& prefix) const { return prefix.ids.size() * sizeof(TokenId); }
  std::size_t operator()(const AckOnly&) const { return 0; }
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
  return sizeof(EdgeMessage) + std::visit(SizeOfBody{}, message.body);
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
