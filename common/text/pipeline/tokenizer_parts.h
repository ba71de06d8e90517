// What the file formats (common/text/format) say about a tokenizer, in one form.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/text/pipeline/added_tokens.h"
#include "common/text/pipeline/bpe.h"
#include "common/text/pipeline/decoder.h"
#include "common/text/pipeline/normalizer.h"
#include "common/text/pipeline/pre_tokenizer.h"

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
  // tokenizer.model leaves it to the configuration what stands around a text.
  bool frame_from_config = false;
  // Known from tokenizer.model and GGUF files.
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  // Known from GGUF files: Jinja texts by name; a model's only one is "default".
  std::map<std::string, std::string> chat_templates;
};

// Ids may leave gaps, but not so many that a small file asks for much memory.
constexpr std::size_t id_limit_of(std::size_t num_entries) {
  return 2 * num_entries + 1024;
}

}  // namespace outrider
