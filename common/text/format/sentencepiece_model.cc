// tokenizer.model is the message ModelProto of sentencepiece_model.proto (google/sentencepiece).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "common/text/format/protobuf_reader.h"
#include "common/text/format/tokenizer_files.h"
#include "common/text/pipeline/utf8.h"

namespace outrider {
namespace {

// Bounds the work of looking at every split of a piece; SentencePiece's own default is 16
// characters.
constexpr std::size_t kMaxPieceBytes = 512;
constexpr std::string_view kMarker = "\xE2\x96\x81";  // U+2581 stands for a space

enum PieceType : std::uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6 };

struct Piece {
  std::string text;
  float score = 0;
  std::uint64_t type = kNormal;
};

struct SentencePieceFile {
  std::vector<Piece> pieces;
  // TrainerSpec
  std::uint64_t model_type = 1;  // unigram
  bool byte_fallback = false;
  bool space_as_suffix = false;
  std::int64_t unknown_id = 0;
  std::int64_t bos_id = 1;
  std::int64_t eos_id = 2;
  // NormalizerSpec
  std::string normalizer_name;
  bool has_character_map = false;
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
};

Status damaged() {
  return data_loss("tokenizer.model: damaged, or not a SentencePiece model");
}

Status read_piece(std::string_view bytes, SentencePieceFile& file) {
  const std::string where = "tokenizer.model: piece " + std::to_string(file.pieces.size());
  Piece piece;
  ProtobufReader reader(bytes);
  while (reader.next()) {
    if (reader.field() == 1) piece.text = reader.bytes();
    if (reader.field() == 2) piece.score = reader.float32();
    if (reader.field() == 3) piece.type = reader.varint();
  }
  if (!reader.ok()) return damaged();
  if (piece.text.empty() || piece.text.size() > kMaxPieceBytes || !is_utf8(piece.text)) {
    return data_loss(where + ": its text must be UTF-8 of 1 to " + std::to_string(kMaxPieceBytes) +
                     " bytes");
  }
  if (!std::isfinite(piece.score)) return data_loss(where + ": its score is not a number");
  if (piece.type != kNormal && piece.type != kUnknown && piece.type != kControl &&
      piece.type != kByte) {
    return unimplemented(where + " '" + piece.text + "': type " + std::to_string(piece.type) +
                         " (user-defined or unused) is not supported");
  }
  file.pieces.push_back(std::move(piece));
  return {};
}

Status read_trainer_spec(std::string_view bytes, SentencePieceFile& file) {
  ProtobufReader reader(bytes);
  while (reader.next()) {
    if (reader.field() == 3) file.model_type = reader.varint();
    if (reader.field() == 24) file.space_as_suffix = reader.varint() != 0;
    if (reader.field() == 35) file.byte_fallback = reader.varint() != 0;
    if (reader.field() == 40) file.unknown_id = static_cast<std::int64_t>(reader.varint());
    if (reader.field() == 41) file.bos_id = static_cast<std::int64_t>(reader.varint());
    if (reader.field() == 42) file.eos_id = static_cast<std::int64_t>(reader.varint());
  }
  return reader.ok() ? Status() : damaged();
}

Status read_normalizer_spec(std::string_view bytes, SentencePieceFile& file) {
  ProtobufReader reader(bytes);
  while (reader.next()) {
    if (reader.field() == 1) file.normalizer_name = reader.bytes();
    if (reader.field() == 2) file.has_character_map = !reader.bytes().empty();
    if (reader.field() == 3) file.add_dummy_prefix = reader.varint() != 0;
    if (reader.field() == 4) file.remove_extra_spaces = reader.varint() != 0;
    if (reader.field() == 5) file.escape_spaces = reader.varint() != 0;
  }
  return reader.ok() ? Status() : damaged();
}

Result<SentencePieceFile> read_file_parts(std::string_view bytes) {
  SentencePieceFile file;
  ProtobufReader reader(bytes);
  while (reader.next()) {
    if (reader.field() == 1) OUTRIDER_RETURN_IF_ERROR(read_piece(reader.bytes(), file));
    if (reader.field() == 2) OUTRIDER_RETURN_IF_ERROR(read_trainer_spec(reader.bytes(), file));
    if (reader.field() == 3) OUTRIDER_RETURN_IF_ERROR(read_normalizer_spec(reader.bytes(), file));
  }
  if (!reader.ok() || file.pieces.empty()) return damaged();
  return file;
}

Status check_features(const SentencePieceFile& file) {
  const auto refused = [](const std::string& what) {
    return unimplemented("tokenizer.model: " + what + " is not supported");
  };
  if (file.model_type != 2) {
    return refused("model_type " + std::to_string(file.model_type) + " (only 2, BPE)");
  }
  if (file.space_as_suffix) return refused("treat_whitespace_as_suffix");
  if (!file.escape_spaces) return refused("escape_whitespaces = false");
  if (file.has_character_map) return refused("normalisation '" + file.normalizer_name + "'");
  return {};
}

// A merge and what ranks it: score, then the lengths of its sides in characters.
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

// SentencePiece joins the neighbours whose joined text has the best score. As a list of pairs, in
// the order in which transformers converts such a file.
std::vector<BpeMerge> merges_of(const std::vector<Piece>& pieces) {
  std::unordered_map<std::string_view, TokenId> id_of;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type == kNormal) id_of.emplace(pieces[id].text, static_cast<TokenId>(id));
  }
  std::vector<RankedMerge> ranked;
  for (const auto& piece : pieces) {
    if (piece.type != kNormal) continue;
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

Result<std::optional<TokenId>> special_id(const SentencePieceFile& file, std::int64_t id,
                                          const char* name) {
  std::optional<TokenId> none;
  if (id == -1) return none;  // switched off when the file was made
  if (id < 0 || static_cast<std::uint64_t>(id) >= file.pieces.size()) {
    return data_loss("tokenizer.model: " + std::string(name) + " " + std::to_string(id) +
                     " is out of range; it has " + std::to_string(file.pieces.size()) + " pieces");
  }
  return std::optional(static_cast<TokenId>(id));
}

}  // namespace

Result<TokenizerParts> parse_sentencepiece_model(std::string_view bytes) {
  OUTRIDER_ASSIGN_OR_RETURN(const SentencePieceFile file, read_file_parts(bytes));
  OUTRIDER_RETURN_IF_ERROR(check_features(file));
  TokenizerParts parts;
  parts.from_sentencepiece = true;
  parts.bpe.byte_fallback = file.byte_fallback;
  parts.bpe.fuse_unknown = true;
  OUTRIDER_ASSIGN_OR_RETURN(parts.bpe.unknown, special_id(file, file.unknown_id, "unk_id"));
  OUTRIDER_ASSIGN_OR_RETURN(parts.bos, special_id(file, file.bos_id, "bos_id"));
  OUTRIDER_ASSIGN_OR_RETURN(parts.eos, special_id(file, file.eos_id, "eos_id"));
  for (std::size_t id = 0; id < file.pieces.size(); ++id) {
    const Piece& piece = file.pieces[id];
    parts.bpe.tokens.emplace_back(piece.text);
    if (piece.type == kControl || piece.type == kUnknown) {
      parts.added_tokens.push_back(
          {.id = static_cast<TokenId>(id), .content = piece.text, .special = true});
    }
  }
  parts.bpe.merges = merges_of(file.pieces);

  const std::string marker(kMarker);
  OUTRIDER_ASSIGN_OR_RETURN(SplitPattern space, SplitPattern::literal(" "));
  OUTRIDER_ASSIGN_OR_RETURN(SplitPattern mark, SplitPattern::literal(marker));
  std::vector<NormalizerStep> steps;
  if (file.remove_extra_spaces) steps.emplace_back(CollapseSpacesStep{});
  if (file.add_dummy_prefix) steps.emplace_back(PrependStep{marker});
  steps.emplace_back(ReplaceStep{std::move(space), marker});
  parts.normalizer = Normalizer(std::move(steps));
  parts.decoder.replaces.push_back({std::move(mark), " "});
  parts.decoder.byte_fallback = file.byte_fallback;
  parts.decoder.strip = " ";
  parts.decoder.strip_left = file.add_dummy_prefix ? 1 : 0;
  return parts;
}

}  // namespace outrider
