// tokenizer.model is the message ModelProto of sentencepiece_model.proto (google/sentencepiece).
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <utility>

#include "common/engine/text/format/protobuf_reader.h"
#include "common/engine/text/format/sentencepiece_parts.h"
#include "common/engine/text/format/tokenizer_files.h"

namespace outrider {
namespace {

struct SentencePieceFile {
  SentencePieceVocabulary vocabulary{.remove_extra_spaces = true};  // the format's defaults
  // TrainerSpec
  std::uint64_t model_type = 1;  // unigram
  bool space_as_suffix = false;
  std::int64_t unknown_id = 0;
  std::int64_t bos_id = 1;
  std::int64_t eos_id = 2;
  // NormalizerSpec
  std::string normalizer_name;
  bool has_character_map = false;
  bool escape_spaces = true;
};

Status damaged() {
  return data_loss("tokenizer.model: damaged, or not a SentencePiece model");
}

Status read_piece(std::string_view bytes, SentencePieceFile& file) {
  SentencePiece piece;
  ProtobufReader reader(bytes);
  while (reader.next()) {
    if (reader.field() == 1) piece.text = reader.bytes();
    if (reader.field() == 2) piece.score = reader.float32();
    if (reader.field() == 3) piece.type = static_cast<PieceType>(reader.varint());
  }
  if (!reader.ok()) return damaged();
  file.vocabulary.pieces.push_back(std::move(piece));
  return {};
}

Status read_trainer_spec(std::string_view bytes, SentencePieceFile& file) {
  ProtobufReader reader(bytes);
  while (reader.next()) {
    if (reader.field() == 3) file.model_type = reader.varint();
    if (reader.field() == 24) file.space_as_suffix = reader.varint() != 0;
    if (reader.field() == 35) file.vocabulary.byte_fallback = reader.varint() != 0;
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
    if (reader.field() == 3) file.vocabulary.add_space_prefix = reader.varint() != 0;
    if (reader.field() == 4) file.vocabulary.remove_extra_spaces = reader.varint() != 0;
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
  if (!reader.ok() || file.vocabulary.pieces.empty()) return damaged();
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

Result<std::optional<TokenId>> special_id(const SentencePieceFile& file, std::int64_t id,
                                          const char* name) {
  std::optional<TokenId> none;
  if (id == -1) return none;  // disabled when the file was made
  if (id < 0 || static_cast<std::uint64_t>(id) >= file.vocabulary.pieces.size()) {
    return data_loss("tokenizer.model: " + std::string(name) + " " + std::to_string(id) +
                     " is out of range; it has " + std::to_string(file.vocabulary.pieces.size()) +
                     " pieces");
  }
  return std::optional(static_cast<TokenId>(id));
}

}  // namespace

Result<TokenizerParts> parse_sentencepiece_model(std::string_view bytes) {
  OUTRIDER_ASSIGN_OR_RETURN(SentencePieceFile file, read_file_parts(bytes));
  OUTRIDER_RETURN_IF_ERROR(check_features(file));
  OUTRIDER_ASSIGN_OR_RETURN(file.vocabulary.unknown, special_id(file, file.unknown_id, "unk_id"));
  OUTRIDER_ASSIGN_OR_RETURN(TokenizerParts parts,
                            sentencepiece_parts(file.vocabulary, "tokenizer.model"));
  parts.frame_from_config = true;
  OUTRIDER_ASSIGN_OR_RETURN(parts.bos, special_id(file, file.bos_id, "bos_id"));
  OUTRIDER_ASSIGN_OR_RETURN(parts.eos, special_id(file, file.eos_id, "eos_id"));
  return parts;
}

}  // namespace outrider
