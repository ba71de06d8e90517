// Ids equal those of Hugging Face tokenizers, line by line, on books, encyclopaedia, code, emoji,
// ten scripts and every Unicode character (tests/golden/make_text_goldens.py), and decode to the
// original text. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "common/base/sha256.h"
#include "common/engine/gguf/find_gguf.h"
#include "common/engine/gguf/gguf_file.h"
#include "common/engine/text/pipeline/unicode.h"
#include "common/engine/text/pipeline/utf8.h"
#include "tests/unit/common/engine/text/family_tokenizers.h"
#include "tests/unit/common/engine/text/golden_texts.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

namespace outrider {
namespace {

constexpr std::size_t kBlock = 500;  // lines per hash in ids.txt

struct Comparison {
  std::size_t num_lines = 0;
  std::size_t differing_lines = 0;  // lines of the blocks that differ
  std::string differing_blocks;
  std::size_t broken_round_trips = 0;
};

// The expected result of decoding. SmolLM2 has no token for some control characters, and drops
// them. In SentencePiece's families a U+2581 of the text cannot be told from a space, nor, in the
// newer form, a text that starts with a space from one that does not: Hugging Face gives the same.
std::string after_round_trip(const std::string& family, const std::string& line) {
  if (family == "qwen2") return *to_unicode_form(line, UnicodeForm::kNfc);
  if (family == "smollm2") {
    std::string known = line;
    const std::string lacking("\x04\x06\x13\x14\x16\x1d");
    std::erase_if(known, [&](char c) { return lacking.find(c) != std::string::npos; });
    return known;
  }
  if (!family.starts_with("llama2")) return line;
  std::string out;
  for (std::size_t at = 0; at < line.size(); at += utf8_length(line[at])) {
    const std::string c = line.substr(at, utf8_length(line[at]));
    out += c == "\u2581" ? " " : c;
  }
  return family == "llama2-metaspace" && out.starts_with(' ') ? out.substr(1) : out;
}

Comparison compare(const Tokenizer& tokenizer, const std::string& family, const std::string& text,
                   std::istream& expected) {
  const std::vector<std::string> lines = lines_of(text);
  Comparison result;
  result.num_lines = lines.size();
  for (std::size_t first = 0; first < lines.size(); first += kBlock) {
    const std::size_t end = std::min(first + kBlock, lines.size());
    Sha256 hash;
    for (std::size_t i = first; i < end; ++i) {
      const std::vector<TokenId> ids = *tokenizer.encode(lines[i]);
      hash_ids(ids, hash);
      if (*tokenizer.decode(ids) != after_round_trip(family, lines[i])) ++result.broken_round_trips;
    }
    std::string golden;
    expected >> golden;
    if (hash.finish_hex().substr(0, 16) != golden) {
      result.differing_lines += end - first;
      result.differing_blocks.append(" ").append(std::to_string(first));
    }
  }
  return result;
}

class GoldenIds : public testing::TestWithParam<const char*> {};

TEST_P(GoldenIds, EqualThoseOfHuggingFaceAndTurnBackIntoTheText) {
  const std::string family = GetParam();
  const std::optional<Tokenizer> tokenizer = family_tokenizer(family);
  if (!tokenizer) GTEST_SKIP() << "needs " << kSharedData << " or " << kSmolLm2;
  std::istringstream golden(read_whole(kGoldenText + "/ids.txt"));
  int num_texts = 0;
  for (std::string line; std::getline(golden, line);) {
    std::istringstream fields(line);
    std::string of_family;
    std::string text;
    fields >> of_family >> text;
    const bool is_there =
        text.find('/') == std::string::npos || std::filesystem::exists(kSharedData);
    if (of_family != family || !is_there) continue;
    const Comparison result = compare(*tokenizer, family, text, fields);
    std::printf("%-17s %-28s %6zu lines, %zu differing, %zu broken round trips\n", family.c_str(),
                text.c_str(), result.num_lines, result.differing_lines, result.broken_round_trips);
    EXPECT_EQ(result.differing_lines, 0u)
        << "blocks from line" << result.differing_blocks << "; see make_text_goldens.py dump "
        << family << " " << text;
    EXPECT_EQ(result.broken_round_trips, 0u);
    ++num_texts;
  }
  EXPECT_EQ(num_texts, std::filesystem::exists(kSharedData) ? 8 : 4);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenIds,
                         testing::Values("gpt2", "qwen2", "llama3", "llama2", "llama2-metaspace",
                                         "smollm2"));

// SmolLM2's tokenizer.json, from the tokens and merges of its GGUF file.
Json smollm2_json(const GgufMetadata& metadata) {
  Json json = small_byte_level();
  json["model"]["vocab"] = Json::object();
  json["added_tokens"] = Json::array();
  const auto types = *metadata.integers("tokenizer.ggml.token_type");
  const auto tokens = *metadata.texts("tokenizer.ggml.tokens");
  for (const std::string_view token : tokens) {
    const std::size_t id = json["model"]["vocab"].size();
    json["model"]["vocab"][std::string(token)] = id;
    if (types[id] == 3) {
      json["added_tokens"].push_back(special_token(static_cast<int>(id), std::string(token)));
    }
  }
  json["model"]["merges"] = *metadata.texts("tokenizer.ggml.merges");
  json["pre_tokenizer"] = Json::parse(
      R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
          {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]})");
  return json;
}

TEST(ContentHash, IsTheSameForSmolLm2sGgufFileAndItsTokenizerJson) {
  const std::optional<Tokenizer> tokenizer = family_tokenizer("smollm2");
  if (!tokenizer) GTEST_SKIP() << "models/smollm2 is not there; ./run model smollm2 fetches it";
  const GgufFile file = *GgufFile::open(**find_gguf(kSmolLm2));
  const Result<Tokenizer> json = Tokenizer::load_json(smollm2_json(file.metadata()).dump());
  ASSERT_TRUE(json.ok()) << json.status().to_string();
  EXPECT_EQ(tokenizer->content_hash(), json->content_hash());
}

TEST(ContentHash, IsTheSameForTokenizerModelAndItsTokenizerJson) {
  const std::optional<Tokenizer> model = family_tokenizer("llama2");
  if (!model) GTEST_SKIP() << "needs " << kSharedData;
  const Result<Tokenizer> json = Tokenizer::load_json(llama2_json(/*metaspace=*/false).dump());
  EXPECT_EQ(model->content_hash(), json->content_hash());
  EXPECT_NE(model->content_hash(), family_tokenizer("llama2-metaspace")->content_hash());
}

}  // namespace
}  // namespace outrider
