// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/format/gguf_tokenizer.h"

#include <algorithm>
#include <utility>

#include "common/engine/text/format/gguf_splitting.h"
#include "common/engine/text/format/merge_list.h"
#include "common/engine/text/format/sentencepiece_parts.h"
#include "common/engine/text/pipeline/utf8.h"

namespace outrider {
namespace {

constexpr const char* kModelKey = "tokenizer.ggml.model";
constexpr const char* kPreKey = "tokenizer.ggml.pre";
constexpr const char* kTokensKey = "tokenizer.ggml.tokens";
constexpr const char* kScoresKey = "tokenizer.ggml.scores";
constexpr const char* kTypesKey = "tokenizer.ggml.token_type";
constexpr const char* kMergesKey = "tokenizer.ggml.merges";
constexpr const char* kSpacePrefixKey = "tokenizer.ggml.add_space_prefix";
constexpr std::size_t kMaxTokens = std::size_t{1} << 24;

// Reads required and optional keys.
class Keys {
 public:
  explicit Keys(const GgufMetadata& metadata) : metadata_(metadata) {}

  bool has(const std::string& key) const { return metadata_.has(key); }

  Result<std::string> text(const std::string& key) const {
    OUTRIDER_RETURN_IF_ERROR(need(key));
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view text, metadata_.text(key));
    return utf8(text, key);
  }

  Result<std::vector<std::string>> texts(const std::string& key) const {
    OUTRIDER_RETURN_IF_ERROR(need(key));
    OUTRIDER_ASSIGN_OR_RETURN(const auto views, metadata_.texts(key));
    std::vector<std::string> texts;
    texts.reserve(views.size());
    for (const std::string_view view : views) {
      OUTRIDER_ASSIGN_OR_RETURN(std::string text,
                                utf8(view, key + "[" + std::to_string(texts.size()) + "]"));
      texts.push_back(std::move(text));
    }
    return texts;
  }

  Result<std::vector<std::int64_t>> integers(const std::string& key, std::size_t count) const {
    OUTRIDER_RETURN_IF_ERROR(need(key));
    OUTRIDER_ASSIGN_OR_RETURN(auto values, metadata_.integers(key));
    OUTRIDER_RETURN_IF_ERROR(check_count(key, values.size(), count));
    return values;
  }

  Result<std::vector<float>> reals(const std::string& key, std::size_t count) const {
    OUTRIDER_RETURN_IF_ERROR(need(key));
    OUTRIDER_ASSIGN_OR_RETURN(auto values, metadata_.reals(key));
    OUTRIDER_RETURN_IF_ERROR(check_count(key, values.size(), count));
    return values;
  }

  Result<bool> flag_or(const std::string& key, bool value) const {
    if (!has(key)) return value;
    return metadata_.flag(key);
  }

  // A token's id; nothing if the key is absent.
  Result<std::optional<TokenId>> token(const std::string& key, const BpeSpec& bpe) const {
    std::optional<TokenId> none;
    if (!has(key)) return none;
    OUTRIDER_ASSIGN_OR_RETURN(const std::int64_t id, metadata_.integer(key));
    const auto index = static_cast<std::uint64_t>(id);
    if (id < 0 || index >= bpe.tokens.size() || !bpe.tokens[index]) {
      return data_loss(key + " " + std::to_string(id) + " has no token; " + kTokensKey + " has " +
                       std::to_string(bpe.tokens.size()));
    }
    return std::optional(static_cast<TokenId>(id));
  }

 private:
  Status need(const std::string& key) const {
    if (has(key)) return {};
    return data_loss(key + " is missing, which a tokenizer needs");
  }

  static Status check_count(const std::string& key, std::size_t found, std::size_t count) {
    if (found == count) return {};
    return data_loss(key + " has " + std::to_string(found) + " values, but " + kTokensKey + " " +
                     std::to_string(count));
  }

  static Result<std::string> utf8(std::string_view text, const std::string& where) {
    if (!is_utf8(text)) return data_loss(where + ": not UTF-8");
    return std::string(text);
  }

  const GgufMetadata& metadata_;
};

// The tokens with their types; only SentencePiece has scores.
Result<std::vector<SentencePiece>> read_pieces(const Keys& keys) {
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<std::string> texts, keys.texts(kTokensKey));
  if (texts.empty() || texts.size() > kMaxTokens) {
    return data_loss(std::string(kTokensKey) + " has " + std::to_string(texts.size()) +
                     " tokens, must have 1 to " + std::to_string(kMaxTokens));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const auto types, keys.integers(kTypesKey, texts.size()));
  std::vector<SentencePiece> pieces(texts.size());
  for (std::size_t id = 0; id < texts.size(); ++id) {
    // Converters pad vocabularies with such tokens, older ones with another type.
    const bool padding = texts[id] == "[PAD" + std::to_string(id) + "]";
    pieces[id].type = padding ? PieceType::kUnused : static_cast<PieceType>(types[id]);
    if (types[id] < 1 || types[id] > 6) {
      return data_loss(std::string(kTypesKey) + "[" + std::to_string(id) + "] is " +
                       std::to_string(types[id]) + ", 1 to 6 are known");
    }
    pieces[id].text = std::move(texts[id]);
  }
  return pieces;
}

Result<std::vector<BpeMerge>> read_merges(const Keys& keys,
                                          const std::vector<std::optional<std::string>>& tokens) {
  MergeList merges(tokens);
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::string> lines, keys.texts(kMergesKey));
  for (const std::string& line : lines) OUTRIDER_RETURN_IF_ERROR(merges.add(line, kMergesKey));
  return merges.take();
}

// The name of the splitting; files without one say nothing about it.
Result<std::string> splitting_of(const Keys& keys) {
  if (!keys.has(kPreKey)) return std::string(kDefaultGgufSplitting);
  return keys.text(kPreKey);
}

Result<TokenizerParts> byte_level_parts(const Keys& keys, std::vector<SentencePiece> pieces) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string pre, splitting_of(keys));
  OUTRIDER_ASSIGN_OR_RETURN(const bool space_prefix, keys.flag_or(kSpacePrefixKey, false));
  if (space_prefix) {
    return unimplemented(std::string(kSpacePrefixKey) + " true with " + kModelKey +
                         " 'gpt2' is not supported");
  }
  TokenizerParts parts;
  OUTRIDER_RETURN_IF_ERROR(set_gguf_splitting(pre, parts));
  if (!keys.has(kPreKey)) {
    parts.assumed = std::string(kPreKey) + " is missing, so text is split by the rule '" + pre +
                    "', which may not be the model's own. Remedy: convert the model again";
  }
  parts.decoder.byte_level = true;
  parts.bpe.tokens.resize(pieces.size());
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    SentencePiece& piece = pieces[id];
    if (piece.type == PieceType::kUnused) continue;
    if (auto token = added_token_of(piece.text, piece.type, static_cast<TokenId>(id))) {
      parts.added_tokens.push_back(*std::move(token));
    }
    parts.bpe.tokens[id] = std::move(piece.text);
  }
  OUTRIDER_ASSIGN_OR_RETURN(parts.bpe.merges, read_merges(keys, parts.bpe.tokens));
  return parts;
}

// SentencePiece; or Gemma 4's form of it, whose merges are listed and not found by scores.
Result<TokenizerParts> sentencepiece_parts_of(const Keys& keys, std::vector<SentencePiece> pieces,
                                              bool lists_merges) {
  SentencePieceVocabulary vocabulary{.pieces = std::move(pieces), .has_scores = !lists_merges};
  if (!lists_merges) {
    OUTRIDER_ASSIGN_OR_RETURN(const auto scores, keys.reals(kScoresKey, vocabulary.pieces.size()));
    for (std::size_t id = 0; id < scores.size(); ++id) vocabulary.pieces[id].score = scores[id];
  }
  vocabulary.byte_fallback =
      std::ranges::count(vocabulary.pieces, PieceType::kByte, &SentencePiece::type) > 0;
  OUTRIDER_ASSIGN_OR_RETURN(vocabulary.add_space_prefix,
                            keys.flag_or(kSpacePrefixKey, !lists_merges));
  OUTRIDER_ASSIGN_OR_RETURN(vocabulary.remove_extra_spaces,
                            keys.flag_or("tokenizer.ggml.remove_extra_whitespaces", false));
  OUTRIDER_ASSIGN_OR_RETURN(TokenizerParts parts, sentencepiece_parts(vocabulary, kTokensKey));
  if (lists_merges) {
    OUTRIDER_ASSIGN_OR_RETURN(parts.bpe.merges, read_merges(keys, parts.bpe.tokens));
  }
  OUTRIDER_ASSIGN_OR_RETURN(parts.bpe.unknown,
                            keys.token("tokenizer.ggml.unknown_token_id", parts.bpe));
  return parts;
}

// <s> and </s>, and whether they are put around a text.
Status read_frame(const Keys& keys, bool adds_bos, TokenizerParts& parts) {
  OUTRIDER_ASSIGN_OR_RETURN(parts.bos, keys.token("tokenizer.ggml.bos_token_id", parts.bpe));
  OUTRIDER_ASSIGN_OR_RETURN(parts.eos, keys.token("tokenizer.ggml.eos_token_id", parts.bpe));
  OUTRIDER_ASSIGN_OR_RETURN(const bool bos, keys.flag_or("tokenizer.ggml.add_bos_token", adds_bos));
  OUTRIDER_ASSIGN_OR_RETURN(const bool eos, keys.flag_or("tokenizer.ggml.add_eos_token", false));
  if (bos && parts.bos) parts.prefix = {*parts.bos};
  if (eos && parts.eos) parts.suffix = {*parts.eos};
  return {};
}

// Reads tokenizer.chat_template, and tokenizer.chat_template.NAME for each name in
// tokenizer.chat_templates.
Status read_chat_templates(const Keys& keys, TokenizerParts& parts) {
  const std::string key = "tokenizer.chat_template";
  if (keys.has(key)) {
    OUTRIDER_ASSIGN_OR_RETURN(parts.chat_templates["default"], keys.text(key));
  }
  if (!keys.has("tokenizer.chat_templates")) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const auto names, keys.texts("tokenizer.chat_templates"));
  for (const std::string& name : names) {
    OUTRIDER_ASSIGN_OR_RETURN(parts.chat_templates[name], keys.text(key + "." + name));
  }
  return {};
}

Result<TokenizerParts> parse(const Keys& keys) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string model, keys.text(kModelKey));
  const bool is_gpt2 = model == "gpt2", is_gemma4 = model == "gemma4";
  if (!is_gpt2 && !is_gemma4 && model != "llama") {
    return unimplemented(std::string(kModelKey) + " " + printable(model) +
                         " is not supported; known are gpt2, llama, gemma4");
  }
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<SentencePiece> pieces, read_pieces(keys));
  OUTRIDER_ASSIGN_OR_RETURN(
      TokenizerParts parts,
      is_gpt2 ? byte_level_parts(keys, std::move(pieces))
              : sentencepiece_parts_of(keys, std::move(pieces), /*lists_merges=*/is_gemma4));
  const bool adds_bos = !is_gpt2 || gguf_adds_bos(*splitting_of(keys));
  OUTRIDER_RETURN_IF_ERROR(read_frame(keys, adds_bos, parts));
  OUTRIDER_RETURN_IF_ERROR(read_chat_templates(keys, parts));
  return parts;
}

}  // namespace

Result<TokenizerParts> parse_gguf_tokenizer(const GgufMetadata& metadata) {
  if (!metadata.has(kModelKey)) {
    return not_found(metadata.what() + ": has no tokenizer (" + kModelKey + " is missing)");
  }
  Result<TokenizerParts> parts = parse(Keys(metadata));
  if (parts.ok() || parts.status().message().starts_with(metadata.what())) return parts;
  return parts.status().with_context(metadata.what());
}

}  // namespace outrider
