// Parses the parts of tokenizer.json that are lists of steps.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "common/engine/text/format/json_fields.h"
#include "common/engine/text/format/tokenizer_files.h"

namespace outrider {

Result<Normalizer> parse_normalizer(const JsonNode& node);

Result<PreTokenizer> parse_pre_tokenizer(const JsonNode& node);

// Metaspace, a step of both pre-tokenizer and decoder.
struct Metaspace {
  SpaceStep spaces;
  bool split = true;  // before each mark
};
Result<Metaspace> parse_metaspace(const JsonNode& node);

Result<DecoderSpec> parse_decoder(const JsonNode& node);

// Ids before and after those of a text; all are below `id_limit`.
struct PostProcessorSpec {
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
};
Result<PostProcessorSpec> parse_post_processor(const JsonNode& node, std::size_t id_limit);

// Checks for one character, which marks of spaces and the content of Strip must be.
Status check_one_character(const std::string& text, const std::string& where);

Status unknown_type(const JsonNode& node, const std::string& type);

// The steps of `node`: the steps in its list `list_key` if it is a Sequence, else itself.
Result<std::vector<JsonNode>> steps_of(const JsonNode& node, const char* list_key);

// {"String": text} or {"Regex": pattern}.
Result<SplitPattern> parse_pattern(const JsonNode& node);

}  // namespace outrider
