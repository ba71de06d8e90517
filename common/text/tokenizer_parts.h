// What the two file formats say about a tokenizer, in one form; and the small configuration file
// beside them.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/added_tokens.h"
#include "common/text/bpe.h"
#include "common/text/decoder.h"
#include "common/text/normalizer.h"
#include "common/text/pre_tokenizer.h"

namespace outrider {

struct TokenizerParts {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeSpec bpe;
  std::vector<AddedToken> added_tokens;
  DecoderSpec decoder;
  // What the post-processor puts around the ids of a text.
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
  // Known from tokenizer.model only.
  bool from_sentencepiece = false;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
};

// Ids may leave gaps, but not so many that a small file asks for much memory.
constexpr std::size_t id_limit_of(std::size_t num_entries) {
  return 2 * num_entries + 1024;
}

// tokenizer_config.json, as far as it concerns us.
struct TokenizerConfig {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::vector<std::string> other_special_tokens;  // unk, pad and the additional ones
  std::vector<AddedToken> added_tokens;           // added_tokens_decoder
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::string chat_template;
};

// Errors of all three: kDataLoss for content that is damaged or contradicts itself,
// kUnimplemented for a feature that we do not have; both name the field.
Result<TokenizerParts> parse_tokenizer_json(std::string_view text);
Result<TokenizerParts> parse_sentencepiece_model(std::string_view bytes);
Result<TokenizerConfig> parse_tokenizer_config(std::string_view text);

}  // namespace outrider
