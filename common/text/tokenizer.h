// Text to token ids and back, as the model's own files say.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load("models/demo-target"));
//   OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids, tokenizer.encode("Hello"));
//   OUTRIDER_ASSIGN_OR_RETURN(std::string text, tokenizer.decode(ids));
//
// Reads Hugging Face tokenizer.json (byte-level BPE as in GPT-2, Llama 3, Qwen 2 and SmolLM2;
// SentencePiece-style BPE as in Llama 2, Vicuna and TinyLlama), SentencePiece tokenizer.model
// (BPE) and the same two kinds in GGUF files. Ids and text equal those of Hugging Face tokenizers
// with two exceptions, both in streaming_detokenizer.h's and encode()'s comments. What a file asks
// for and is not implemented is refused by name. Only `truncation` and `padding` are passed over:
// they are settings of a call, which transformers resets as well.
//
// Thread rule: immutable after loading; share it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

class Decoder;
class GgufMetadata;
struct TokenizerConfig;
struct TokenizerParts;
struct TokenizerState;
struct TokenizerTexts;

struct EncodeOptions {
  bool add_special_tokens = true;  // what the post-processor adds, such as <s>
  // Whether special tokens written out in the text become these tokens. Keep it off for text
  // that a user wrote: with it, "<|im_end|>" would end the user's turn.
  bool parse_special = false;
};

// A part of a text to encode. Special tokens are found in trusted parts only; that aside, parts
// are one text (pieces and white space go across their borders).
struct TrustedText {
  std::string_view text;  // ends with a whole character
  bool trusted = false;
};

class Tokenizer final {
 public:
  // From a GGUF file, or from a directory's tokenizer.json, or else tokenizer.model, or else GGUF
  // file; beside it, where they exist, tokenizer_config.json and chat_template.jinja. Errors:
  // kNotFound if none is there.
  static Result<Tokenizer> load(const std::string& path);
  // From the same files' contents (tokenizer_texts.h).
  static Result<Tokenizer> load(const TokenizerTexts& texts);
  // From the content of the two JSON files; `config` may be empty.
  static Result<Tokenizer> load_json(std::string_view tokenizer, std::string_view config = {});
  // From the content of tokenizer.model and tokenizer_config.json; `config` may be empty.
  static Result<Tokenizer> load_sentencepiece(std::string_view model, std::string_view config = {});
  static Result<Tokenizer> load_gguf(const GgufMetadata& metadata);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ill-formed UTF-8 in `text` is read as U+FFFD, one per maximal subpart, which is what Python
  // makes of it with errors='replace' before Hugging Face sees it.
  // Errors: kInvalidArgument above kMaxTextBytes; kResourceExhausted for a hostile split pattern.
  Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions options = {}) const;
  Result<std::vector<TokenId>> encode(std::span<const TrustedText> parts,
                                      bool add_special_tokens) const;

  // The text of `ids`; see StreamingDetokenizer. Errors: kInvalidArgument for an id without token.
  Result<std::string> decode(std::span<const TokenId> ids, bool skip_special = true) const;

  // The bytes that `id` adds inside a text: not always whole characters.
  Result<std::string_view> token_bytes(TokenId id) const;

  // One more than the largest id.
  TokenId vocab_size() const;
  bool contains(TokenId id) const;
  bool is_special(TokenId id) const;
  // The id of a token by its text in the file, added tokens included.
  std::optional<TokenId> find(std::string_view token) const;

  // As tokenizer_config.json names them, or else tokenizer.model or the GGUF file.
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;

  // The model's own Jinja texts by name; the one that a model means for all uses is "default".
  const std::map<std::string, std::string>& chat_templates() const;

  // 64 hex digits over what decides the ids of a text and the text of ids (content_hash.h). Equal
  // for the same tokenizer whichever of the three kinds of file it came from; the two sides of a
  // session compare it in Open.
  const std::string& content_hash() const;

  const Decoder& decoder() const;

  static constexpr std::size_t kMaxTextBytes = std::size_t{1} << 28;

 private:
  static Result<Tokenizer> create(Result<TokenizerParts> parts, TokenizerConfig config);
  explicit Tokenizer(std::unique_ptr<const TokenizerState> state);

  std::unique_ptr<const TokenizerState> state_;
};

}  // namespace outrider
