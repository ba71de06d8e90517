// The families' real tokenizers, assembled from vocabularies outside the repository as in
// tests/golden/make_text_goldens.py, and SmolLM2's if its file was fetched. Without the data there
// is no tokenizer. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/engine/text/format/tokenizer_files.h"
#include "common/engine/text/tokenizer.h"
#include "tests/support/paths.h"

namespace outrider {

inline const std::string kSharedData = source_dir() + "/../shared/data";
// Where ./run model smollm2 puts SmolLM2-135M-Instruct.
inline const std::string kSmolLm2 = source_dir() + "/models/smollm2";
inline const std::string kGoldenText = source_dir() + "/tests/golden/text";

inline std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

inline Json special_token(int id, const std::string& content) {
  return {{"id", id}, {"content", content}, {"special", true}, {"normalized", false}};
}

inline Json starts_with(const std::string& token, int id) {
  Json json = {{"type", "TemplateProcessing"}, {"pair", Json::array()}};
  json["single"].push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
  json["single"].push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  json["special_tokens"][token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  return json;
}

inline Json split_then_bytes(const std::string& digits) {
  const std::string pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" + digits +
                              R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  Json json = {{"type", "Sequence"}};
  json["pretokenizers"].push_back({{"type", "Split"},
                                   {"pattern", {{"Regex", pattern}}},
                                   {"behavior", "Isolated"},
                                   {"invert", false}});
  json["pretokenizers"].push_back(
      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  return json;
}

inline Json qwen2_json() {
  Json json = Json::parse(read_whole(kSharedData + "/tokenizers/gpt2/tokenizer.json"));
  json["normalizer"] = {{"type", "NFC"}};
  json["pre_tokenizer"] = split_then_bytes(R"(\p{N})");
  json["post_processor"] = nullptr;
  json["added_tokens"] = {special_token(50256, "<|endoftext|>"),
                          special_token(50257, "<|im_start|>"), special_token(50258, "<|im_end|>")};
  return json;
}

inline Json llama3_json() {
  const std::string folder = kSharedData + "/tokenizers/llama3.2";
  Json json;
  json["pre_tokenizer"] = split_then_bytes(R"(\p{N}{1,3})");
  json["decoder"] = {{"type", "ByteLevel"}};
  json["post_processor"] = starts_with("<|begin_of_text|>", 128000);
  int id = 128000;
  for (const char* name : {"<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                           "<|end_header_id|>", "<|eot_id|>"}) {
    json["added_tokens"].push_back(special_token(id++, name));
  }
  Json merges = Json::array();
  std::istringstream lines(read_whole(folder + "/vocab.bpe"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
  }
  json["model"] = {{"type", "BPE"},
                   {"ignore_merges", true},
                   {"vocab", Json::parse(read_whole(folder + "/encoder.json"))},
                   {"merges", merges}};
  return json;
}

// tokenizer.model, written as the tokenizer.json that Llama 2 has (`metaspace`: that of a newer
// transformers).
inline Json llama2_json(bool metaspace) {
  const std::string bytes = read_whole(kSharedData + "/tokenizers/llama2/tokenizer.model");
  const TokenizerParts parts = *parse_sentencepiece_model(bytes);
  Json vocab = Json::object();
  Json merges = Json::array();
  const auto text = [&](TokenId id) { return *parts.bpe.tokens[static_cast<std::size_t>(id)]; };
  for (std::size_t id = 0; id < parts.bpe.tokens.size(); ++id) vocab[*parts.bpe.tokens[id]] = id;
  for (const BpeMerge& merge : parts.bpe.merges) {
    merges.push_back({text(merge.left), text(merge.right)});
  }
  Json json = Json::parse(R"({
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})");
  if (metaspace) {
    json["pre_tokenizer"] = Json::parse(
        R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})");
  } else {
    json["normalizer"] = Json::parse(R"({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})");
  }
  json["added_tokens"] = {special_token(0, "<unk>"), special_token(1, "<s>"),
                          special_token(2, "</s>")};
  json["post_processor"] = starts_with("<s>", 1);
  json["model"] = {{"type", "BPE"},         {"unk_token", "<unk>"}, {"fuse_unk", true},
                   {"byte_fallback", true}, {"vocab", vocab},       {"merges", merges}};
  return json;
}

// gpt2, qwen2, llama3, llama2 (from tokenizer.model), llama2-metaspace, or smollm2 (from GGUF).
inline std::optional<Tokenizer> family_tokenizer(const std::string& family,
                                                 const std::string& config = "") {
  const std::string folder = kSharedData + "/tokenizers/";
  const bool is_smollm2 = family == "smollm2";
  if (!std::filesystem::exists(is_smollm2 ? kSmolLm2 : folder)) return std::nullopt;
  const auto load = [&]() -> Result<Tokenizer> {
    if (is_smollm2) return Tokenizer::load(kSmolLm2);
    if (family == "gpt2") {
      return Tokenizer::load_json(read_whole(folder + "gpt2/tokenizer.json"), config);
    }
    if (family == "qwen2") return Tokenizer::load_json(qwen2_json().dump(), config);
    if (family == "llama3") return Tokenizer::load_json(llama3_json().dump(), config);
    if (family == "llama2-metaspace") {
      return Tokenizer::load_json(llama2_json(/*metaspace=*/true).dump(), config);
    }
    return Tokenizer::load_sentencepiece(read_whole(folder + "llama2/tokenizer.model"), config);
  };
  return *load();
}

}  // namespace outrider
