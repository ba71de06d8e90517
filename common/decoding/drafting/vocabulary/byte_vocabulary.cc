// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/vocabulary/byte_vocabulary.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "common/engine/text/inside_text.h"
#include "common/engine/text/pipeline/decoder.h"

namespace outrider {
namespace {

// Capitals, spaces in a row and at the ends, a ligature, a full-width digit: a step that changes
// text changes one of these. Letters and their accents are not among them: a model that reads
// composed ones (NFC) writes them, too.
constexpr std::string_view kProbe =
    " Go  to the O\xEF\xAC\x83"
    "ce \xEF\xBC\x91.\n ";

}  // namespace

ByteVocabulary::ByteVocabulary(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.contains(id) || tokenizer.is_special(id)) continue;
    const std::string_view bytes = bytes_of(id);
    if (bytes.empty()) continue;
    pieces_.push_back({bytes, id});
    longest_ = std::max(longest_, bytes.size());
  }
  std::ranges::sort(pieces_, {}, [](const Piece& one) { return std::pair(one.bytes, one.id); });
}

std::string_view ByteVocabulary::bytes_of(TokenId id) const {
  return tokenizer_.decoder().bytes(id);
}

std::optional<TokenId> ByteVocabulary::find(std::string_view bytes) const {
  const auto after = std::ranges::upper_bound(pieces_, bytes, {}, &Piece::bytes);
  if (after == pieces_.begin() || std::prev(after)->bytes != bytes) return std::nullopt;
  return std::prev(after)->id;
}

bool ByteVocabulary::has_longer(std::string_view bytes) const {
  const auto after = std::ranges::upper_bound(pieces_, bytes, {}, &Piece::bytes);
  return after != pieces_.end() && after->bytes.starts_with(bytes);
}

std::vector<TokenId> ByteVocabulary::tokens_of(std::string_view bytes) const {
  if (const auto whole = find(bytes)) return {*whole};
  std::vector<TokenId> tokens = tokens_inside_text(tokenizer_, bytes);
  if (!tokens.empty()) return tokens;
  while (!bytes.empty()) {
    std::size_t length = std::min(longest_, bytes.size());
    std::optional<TokenId> token;
    while (length > 0 && !(token = find(bytes.substr(0, length)))) --length;
    if (!token) return {};
    tokens.push_back(*token);
    bytes.remove_prefix(length);
  }
  return tokens;
}

Status check_keeps_bytes(const Tokenizer& tokenizer, const std::string& name) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                            tokenizer.encode(kProbe, {.add_special_tokens = false}));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, tokenizer.decode(ids));
  if (text == kProbe) return {};
  return failed_precondition("the tokenizer of " + name + " changes text: of " + printable(kProbe) +
                             " it makes " + printable(text) +
                             ", so nothing that it drafts can be found in the target's "
                             "vocabulary. Remedy: a draft whose tokenizer keeps text as it is");
}

bool have_same_ids(const Tokenizer& a, const Tokenizer& b) {
  for (TokenId id = 0; id < std::min(a.vocab_size(), b.vocab_size()); ++id) {
    if (!a.contains(id) || !b.contains(id)) continue;
    if (a.is_special(id) != b.is_special(id)) return false;
    if (a.decoder().bytes(id) != b.decoder().bytes(id)) return false;
  }
  return true;
}

std::optional<TokenId> same_role(const Tokenizer& from, TokenId id, const Tokenizer& to) {
  const std::optional<TokenId> named = to.find(from.decoder().bytes(id));
  if (named && to.is_special(*named)) return named;
  if (id == from.eos()) return to.eos();
  if (id == from.bos()) return to.bos();
  return std::nullopt;
}

}  // namespace outrider
