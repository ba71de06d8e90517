// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/format/sentencepiece_parts.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "common/engine/text/pipeline/utf8.h"

namespace outrider {
namespace {

// Bounds the work of trying every split of a piece; SentencePiece's own default is 16 characters.
constexpr std::size_t kMaxPieceBytes = 512;
constexpr std::string_view kMarker = "\xE2\x96\x81";  // U+2581 stands for a space

Status check_piece(const SentencePiece& piece, const std::string& where) {
  if (piece.text.empty() || piece.text.size() > kMaxPieceBytes || !is_utf8(piece.text)) {
    return data_loss(where + ": its text must be UTF-8 of 1 to " + std::to_string(kMaxPieceBytes) +
                     " bytes");
  }
  if (!std::isfinite(piece.score)) return data_loss(where + ": its score is not a number");
  if (piece.type < PieceType::kNormal || piece.type > PieceType::kByte) {
    return data_loss(where + ": type " + std::to_string(static_cast<std::uint64_t>(piece.type)) +
                     ", 1 to 6 are known");
  }
  return {};
}

// A merge with its rank: score, then the lengths of its sides in characters.
struct RankedMerge {
  BpeMerge merge;
  float score = 0;
  std::size_t left_length = 0;
  std::size_t right_length = 0;
};

bool ranks_before(const RankedMerge& a, const RankedMerge& b) {
  if (a.score != b.score) return a.score > b.score;
  if (a.left_length != b.left_length) return a.left_length > b.left_length;
  return a.right_length > b.right_length;
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// SentencePiece merges the neighbours whose joined text has the best score. Returns this as a list
// of pairs, in the order of transformers' conversion.
std::vector<BpeMerge> merges_of(const std::vector<SentencePiece>& pieces) {
  std::unordered_map<std::string_view, TokenId> id_of;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type == PieceType::kNormal)
      id_of.emplace(pieces[id].text, static_cast<TokenId>(id));
  }
  std::vector<RankedMerge> ranked;
  for (const auto& piece : pieces) {
    if (piece.type != PieceType::kNormal) continue;
    const std::string_view text = piece.text;
    const std::size_t first_of_piece = ranked.size();
    for (std::size_t at = utf8_length(text[0]); at < text.size(); at += utf8_length(text[at])) {
      const auto left = id_of.find(text.substr(0, at));
      const auto right = id_of.find(text.substr(at));
      if (left == id_of.end() || right == id_of.end()) continue;
      ranked.push_back({{left->second, right->second, id_of.at(text)},
                        piece.score,
                        count_characters(left->first),
                        count_characters(right->first)});
    }
    std::sort(ranked.begin() + static_cast<std::ptrdiff_t>(first_of_piece), ranked.end(),
              [](const RankedMerge& a, const RankedMerge& b) {
                return std::pair(a.merge.left, a.merge.right) <
                       std::pair(b.merge.left, b.merge.right);
              });
  }
  std::stable_sort(ranked.begin(), ranked.end(), ranks_before);
  std::vector<BpeMerge> merges;
  merges.reserve(ranked.size());
  for (const RankedMerge& entry : ranked) merges.push_back(entry.merge);
  return merges;
}

Result<Normalizer> normalizer_of(const SentencePieceVocabulary& vocabulary) {
  const std::string marker(kMarker);
  OUTRIDER_ASSIGN_OR_RETURN(SplitPattern space, SplitPattern::literal(" "));
  std::vector<NormalizerStep> steps;
  if (vocabulary.remove_extra_spaces) steps.emplace_back(CollapseSpacesStep{});
  if (vocabulary.add_space_prefix) steps.emplace_back(PrependStep{marker});
  steps.emplace_back(ReplaceStep{std::move(space), marker});
  return Normalizer(std::move(steps));
}

}  // namespace

std::optional<AddedToken> added_token_of(const std::string& text, PieceType type, TokenId id) {
  const bool special = type == PieceType::kControl || type == PieceType::kUnknown;
  if (!special && type != PieceType::kUserDefined) return std::nullopt;
  return AddedToken{.id = id, .content = text, .special = special};
}

Result<TokenizerParts> sentencepiece_parts(const SentencePieceVocabulary& vocabulary,
                                           std::string_view what) {
  TokenizerParts parts;
  parts.bpe.byte_fallback = vocabulary.byte_fallback;
  parts.bpe.fuse_unknown = true;
  parts.bpe.unknown = vocabulary.unknown;
  parts.bpe.tokens.resize(vocabulary.pieces.size());
  for (std::size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const SentencePiece& piece = vocabulary.pieces[id];
    if (piece.type == PieceType::kUnused) continue;
    OUTRIDER_RETURN_IF_ERROR(
        check_piece(piece, std::string(what) + ": piece " + std::to_string(id)));
    parts.bpe.tokens[id] = piece.text;
    if (auto token = added_token_of(piece.text, piece.type, static_cast<TokenId>(id))) {
      parts.added_tokens.push_back(*std::move(token));
    }
  }
  if (vocabulary.has_scores) parts.bpe.merges = merges_of(vocabulary.pieces);
  OUTRIDER_ASSIGN_OR_RETURN(parts.normalizer, normalizer_of(vocabulary));
  OUTRIDER_ASSIGN_OR_RETURN(SplitPattern mark, SplitPattern::literal(kMarker));
  parts.decoder.replaces.push_back({std::move(mark), " "});
  parts.decoder.byte_fallback = vocabulary.byte_fallback;
  parts.decoder.strip = " ";
  parts.decoder.strip_left = vocabulary.add_space_prefix ? 1 : 0;
  return parts;
}

}  // namespace outrider
