// Converts text to token ids and back, according to the model's files.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load("models/demo-target"));
//   OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids, tokenizer.encode("Hello"));
//   OUTRIDER_ASSIGN_OR_RETURN(std::string text, tokenizer.decode(ids));
//
// Reads Hugging Face tokenizer.json (byte-level BPE as in GPT-2, Llama 3, Qwen 2 and SmolLM2;
// SentencePiece-style BPE as in Llama 2, Vicuna and TinyLlama), SentencePiece tokenizer.model (BPE)
// and the same kinds in GGUF files. Ids and text equal those of Hugging Face tokenizers with
// two exceptions, described in streaming_detokenizer.h and at encode(). An unsupported feature of a
// file is refused by name. Only `truncation` and `padding` are ignored: they are settings of a
// call, which transformers resets as well.
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
  bool add_special_tokens = true;  // add the post-processor's tokens, such as <s>
  // Whether special tokens that are spelled out in the text become these tokens. Must be off for a
  // user's text: otherwise "<|im_end|>" would end the user's turn.
  bool parse_special = false;
};

// A part of a text to encode. Special tokens are recognised in trusted parts only. Otherwise the
// parts are one text: pieces and white space may span their borders.
struct TrustedText {
  std::string_view text;  // ends with a whole character
  bool trusted = false;
};

class Tokenizer final {
 public:
  // From a GGUF file, or from a directory's tokenizer.json, else tokenizer.model, else GGUF file;
  // also reads tokenizer_config.json, chat_template.jinja, chat_template.json and
  // additional_chat_templates if they exist. Errors: kNotFound if there is none.
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

  // Ill-formed UTF-8 in `text` is read as U+FFFD, one per maximal subpart, as by Python's
  // errors='replace' before Hugging Face gets the text. Errors: kInvalidArgument above
  // kMaxTextBytes; kResourceExhausted for a malicious split pattern.
  Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions options = {}) const;
  Result<std::vector<TokenId>> encode(std::span<const TrustedText> parts,
                                      bool add_special_tokens) const;

  // A text of so many bytes has at least this number of ids, as no token of this vocabulary stands
  // for more of it. 0 where the files allow that a text has any number, as some drop white space.
  std::size_t fewest_tokens(std::size_t bytes) const;

  // The ids that add_special_tokens puts before and behind a text.
  const std::vector<TokenId>& prefix() const;
  const std::vector<TokenId>& suffix() const;

  // The text of `ids`; see StreamingDetokenizer. Errors: kInvalidArgument for an id without token.
  Result<std::string> decode(std::span<const TokenId> ids, bool skip_special = true) const;

  // The bytes of `id` inside a text: not always whole characters.
  Result<std::string_view> token_bytes(TokenId id) const;

  // One more than the largest id.
  TokenId vocab_size() const;
  bool contains(TokenId id) const;
  bool is_special(TokenId id) const;
  // The id of a token by its text in the file, added tokens included.
  std::optional<TokenId> find(std::string_view token) const;

  // From tokenizer_config.json, or else tokenizer.model or the GGUF file.
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;

  // The model's own Jinja texts by name; the default one is "default".
  const std::map<std::string, std::string>& chat_templates() const;

  // One line for the user: what was assumed where the file says nothing; empty: nothing.
  const std::string& assumed() const;

  // 64 hex digits over everything that determines the ids of a text and the text of ids
  // (content_hash.h). Equal for the same tokenizer from any of the three kinds of file; the two
  // sides of a session compare it in Open.
  const std::string& content_hash() const;

  const Decoder& decoder() const;

  static constexpr std::size_t kMaxTextBytes = std::size_t{1} << 28;

 private:
  static Result<Tokenizer> create(Result<TokenizerParts> parts, TokenizerConfig config);
  explicit Tokenizer(std::unique_ptr<const TokenizerState> state);

  std::unique_ptr<const TokenizerState> state_;
};

}  // namespace outrider
