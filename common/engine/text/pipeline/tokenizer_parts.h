// The common form of all tokenizer files (common/engine/text/format).
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/text/pipeline/added_tokens.h"
#include "common/engine/text/pipeline/bpe.h"
#include "common/engine/text/pipeline/decoder.h"
#include "common/engine/text/pipeline/normalizer.h"
#include "common/engine/text/pipeline/pre_tokenizer.h"

namespace outrider {

struct TokenizerParts {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeSpec bpe;
  std::vector<AddedToken> added_tokens;
  DecoderSpec decoder;
  // The ids that the post-processor puts around those of a text.
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
  // For tokenizer.model the configuration determines what is put around a text.
  bool frame_from_config = false;
  // Set by tokenizer.model and GGUF files.
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  // Set by GGUF files: Jinja texts by name; a model's only one is "default".
  std::map<std::string, std::string> chat_templates;
  // One line: what was assumed where the file says nothing; empty: nothing.
  std::string assumed;
};

// Ids may have gaps, but not so many that a small file requires much memory.
constexpr std::size_t id_limit_of(std::size_t num_entries) {
  return 2 * num_entries + 1024;
}

}  // namespace outrider
