// The state of a loaded tokenizer: its steps in the order of their use, and the properties of its
// ids. For tokenizer.cc only.
//
// Thread rule: immutable. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/text/format/tokenizer_files.h"
#include "common/engine/text/pipeline/decoder.h"

namespace outrider {

// A text in one string, and its trusted bytes.
struct JoinedText {
  std::string text;
  std::vector<Span> trusted;
};

struct TokenizerState {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeModel model;
  AddedTokens added;
  Decoder decoder;
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::map<std::string, std::string> chat_templates;
  std::string assumed;
  std::string content_hash;
  TokenId vocab_size = 0;
  std::vector<bool> special;  // by id
  // The most bytes of a text for which one id can stand; 0: there is no bound.
  std::size_t most_bytes_of_token = 0;

  static Result<std::unique_ptr<const TokenizerState>> create(TokenizerParts parts,
                                                              TokenizerConfig config);
  // Appends the ids of joined.text[within].
  Status encode_text(const JoinedText& joined, Span within, std::vector<TokenId>& ids) const;
  Status encode_words(std::string text, bool at_start, std::vector<TokenId>& ids) const;
};

}  // namespace outrider
