// Readers of a tokenizer's files: tokenizer.json, tokenizer.model, tokenizer_config.json and
// chat_template.json. GGUF files: gguf_tokenizer.h.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/engine/text/pipeline/tokenizer_parts.h"

namespace outrider {

// The fields of tokenizer_config.json that matter here.
struct TokenizerConfig {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::vector<std::string> other_special_tokens;  // unk, pad and the additional ones
  std::vector<AddedToken> added_tokens;           // added_tokens_decoder
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  // Jinja texts by name; an unnamed one is "default".
  std::map<std::string, std::string> chat_templates;
};

// Errors of all four: kDataLoss for content that is damaged or contradictory, kUnimplemented for
// an unsupported feature; both name the field.
Result<TokenizerParts> parse_tokenizer_json(std::string_view text);
Result<TokenizerParts> parse_sentencepiece_model(std::string_view bytes);
Result<TokenizerConfig> parse_tokenizer_config(std::string_view text);
// The templates of a processor's file, by name; an unnamed one is "default".
Result<std::map<std::string, std::string>> parse_chat_template_json(std::string_view text);

}  // namespace outrider
