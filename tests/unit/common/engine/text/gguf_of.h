// The metadata of a GGUF file, made from the tokens of another kind of file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/engine/gguf/gguf_header.h"
#include "common/engine/text/tokenizer.h"
#include "tests/unit/common/engine/gguf/gguf_builder.h"

namespace outrider {

inline Result<Tokenizer> load_gguf_bytes(const std::string& bytes) {
  const auto header = parse_gguf(std::as_bytes(std::span(bytes.data(), bytes.size())), "made.gguf");
  if (!header.ok()) return header.status();
  return Tokenizer::load_gguf(header->metadata);
}

inline Result<Tokenizer> load_gguf(const GgufBuilder& builder) {
  return load_gguf_bytes(builder.build());
}

// The GGUF form of a byte-level tokenizer.json, as converters write it.
inline GgufBuilder gguf_of_json(const Json& json, const std::string& pre) {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  const auto set = [&](const std::string& token, std::size_t id, std::int32_t type) {
    if (id >= tokens.size()) {
      tokens.resize(id + 1);
      types.resize(id + 1, 5);
    }
    tokens[id] = token;
    types[id] = type;
  };
  for (const auto& [token, id] : json["model"]["vocab"].items()) set(token, id, 1);
  for (const Json& token : json["added_tokens"]) {
    set(token["content"], token["id"], token["special"].get<bool>() ? 3 : 4);
  }
  std::vector<std::string> merges;
  for (const Json& merge : json["model"]["merges"]) {
    merges.push_back(merge.is_string()
                         ? merge.get<std::string>()
                         : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  GgufBuilder builder;
  builder.text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", pre)
      .texts("tokenizer.ggml.tokens", tokens)
      .numbers("tokenizer.ggml.token_type", GgufValueType::kInt32, types)
      .texts("tokenizer.ggml.merges", merges);
  return builder;
}

// A tokenizer of SentencePiece pieces: [[text, score, type], ..].
inline GgufBuilder gguf_of_pieces(const Json& pieces) {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (const Json& piece : pieces) {
    tokens.push_back(piece[0]);
    scores.push_back(piece[1]);
    types.push_back(piece[2]);
  }
  GgufBuilder builder;
  builder.text("tokenizer.ggml.model", "llama")
      .texts("tokenizer.ggml.tokens", tokens)
      .numbers("tokenizer.ggml.scores", GgufValueType::kFloat32, scores)
      .numbers("tokenizer.ggml.token_type", GgufValueType::kInt32, types)
      .u32("tokenizer.ggml.bos_token_id", 1)
      .u32("tokenizer.ggml.eos_token_id", 2)
      .u32("tokenizer.ggml.unknown_token_id", 0);
  return builder;
}

}  // namespace outrider
