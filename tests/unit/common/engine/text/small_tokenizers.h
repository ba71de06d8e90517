// Small tokenizers of each family, built in the test, whose ids can be checked by hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json.h"
#include "common/engine/text/pipeline/byte_level.h"
#include "common/engine/text/pipeline/utf8.h"
#include "common/engine/text/tokenizer.h"

namespace outrider {

// Ids 0..255 are the bytes; then come the merges, in order; then <|im_start|> and <|im_end|>.
inline Json small_byte_level() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    append_utf8(byte_to_character(static_cast<std::uint8_t>(byte)), character);
    vocab[character] = byte;
  }
  Json merges = Json::array();
  const std::initializer_list<std::pair<const char*, const char*>> pairs = {
      {"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {"Ġ", "w"}, {"Ġ", "Ġ"}, {"a", "b"}};
  for (const auto& [left, right] : pairs) {
    vocab[std::string(left) + right] = 256 + merges.size();
    merges.push_back({left, right});
  }
  Json json;
  json["model"] = {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}};
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  json["decoder"] = {{"type", "ByteLevel"}};
  json["added_tokens"] = Json::array();
  int id = 256 + static_cast<int>(merges.size());
  for (const char* content : {"<|im_start|>", "<|im_end|>"}) {
    json["added_tokens"].push_back(
        {{"id", id++}, {"content", content}, {"special", true}, {"normalized", false}});
  }
  return json;
}

// Ids 0..2 are <unk>, <s>, </s>; 3..258 the bytes; then "▁", "a", "b", "▁a", "ab", "▁ab", "▁▁".
inline Json small_sentencepiece() {
  Json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) {
    char token[7];
    std::snprintf(token, sizeof(token), "<0x%02X>", static_cast<unsigned>(byte));
    vocab[token] = 3 + byte;
  }
  for (const char* token : {"▁", "a", "b", "▁a", "ab", "▁ab", "▁▁"}) {
    vocab[token] = vocab.size();
  }
  Json json = Json::parse(R"({
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})");
  json["model"] = {{"type", "BPE"},    {"unk_token", "<unk>"},
                   {"fuse_unk", true}, {"byte_fallback", true},
                   {"vocab", vocab},   {"merges", {"▁ a", "a b", "▁ ab", "▁a b", "▁ ▁"}}};
  int id = 0;
  for (const char* content : {"<unk>", "<s>", "</s>"}) {
    json["added_tokens"].push_back(
        {{"id", id++}, {"content", content}, {"special", true}, {"normalized", false}});
  }
  return json;
}

// The same with the older Metaspace at both ends.
inline Json small_metaspace() {
  Json json = small_sentencepiece();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] =
      Json::parse(R"({"type": "Metaspace", "replacement": "▁", "add_prefix_space": true})");
  json["decoder"] = json["pre_tokenizer"];
  return json;
}

inline Tokenizer load_or_die(const Json& json, const std::string& config = "") {
  Result<Tokenizer> tokenizer = Tokenizer::load_json(json.dump(), config);
  OUTRIDER_CHECK(tokenizer.ok());
  return *std::move(tokenizer);
}

}  // namespace outrider
