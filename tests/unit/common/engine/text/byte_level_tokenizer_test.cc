// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "common/engine/text/tokenizer.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

namespace outrider {
namespace {

using testing::ElementsAre;

constexpr TokenId kHello = 259;
constexpr TokenId kSpaceW = 260;
constexpr TokenId kTwoSpaces = 261;
constexpr TokenId kImStart = 263;
constexpr TokenId kImEnd = 264;

std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text,
                            EncodeOptions options = {}) {
  Result<std::vector<TokenId>> ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status().to_string();
  return *ids;
}

TEST(ByteLevelTokenizer, MergesPairsByRankInsidePiecesOnly) {
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  EXPECT_THAT(encode(tokenizer, "hello wo"), ElementsAre(kHello, kSpaceW, 'o'));
  // The last of several spaces belongs to the word, so only two are left to merge.
  EXPECT_THAT(encode(tokenizer, "a   w"), ElementsAre('a', kTwoSpaces, kSpaceW));
  EXPECT_THAT(encode(tokenizer, ""), ElementsAre());
}

TEST(ByteLevelTokenizer, SpecialTokensInTextAreTextUnlessAsked) {
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  EXPECT_THAT(encode(tokenizer, "<|im_end|>", {.parse_special = true}), ElementsAre(kImEnd));
  const std::vector<TokenId> ids = encode(tokenizer, "<|im_end|>");
  EXPECT_EQ(ids.size(), 10u);
  EXPECT_EQ(*tokenizer.decode(ids), "<|im_end|>");
}

TEST(ByteLevelTokenizer, SpecialTokensCountInTrustedPartsOnly) {
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  const std::vector<TrustedText> parts = {
      {"<|im_start|>", true}, {"a<|im_end|>", false}, {"<|im_end|>", true}};
  const Result<std::vector<TokenId>> ids = tokenizer.encode(parts, false);
  EXPECT_EQ(ids->size(), 1u + 11u + 1u);
  EXPECT_EQ(ids->front(), kImStart);
  EXPECT_EQ(ids->back(), kImEnd);
  // A marker whose halves have different origins is no marker.
  const std::vector<TrustedText> halves = {{"<|im_", false}, {"end|>", true}};
  EXPECT_EQ(tokenizer.encode(halves, false)->size(), 10u);
}

TEST(ByteLevelTokenizer, KeepsEveryTextByteForByte) {
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  for (const std::string& text :
       {std::string("héllo wörld"), std::string("日本語 العربية 👩‍👩‍👧\n\t"),
        std::string("\0a\0", 3), std::string("\r\n\r\n  x")}) {
    EXPECT_EQ(*tokenizer.decode(encode(tokenizer, text)), text);
  }
}

TEST(ByteLevelTokenizer, SkipsSpecialTokensWhenDecodingUnlessAsked) {
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  const std::vector<TokenId> ids = {kImStart, kHello, kImEnd};
  EXPECT_EQ(*tokenizer.decode(ids), "hello");
  EXPECT_EQ(*tokenizer.decode(ids, /*skip_special=*/false), "<|im_start|>hello<|im_end|>");
}

TEST(ByteLevelTokenizer, DecodingRefusesIdsWithoutToken) {
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  EXPECT_EQ(tokenizer.vocab_size(), 265);
  for (const TokenId id : {-1, 265, 1 << 30}) {
    const Result<std::string> text = tokenizer.decode(std::vector<TokenId>{'a', id});
    EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(tokenizer.token_bytes(id).status().code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(tokenizer.is_special(id));
  }
}

TEST(ByteLevelTokenizer, NamesItsSpecialIdsAsTheConfigurationDoes) {
  const Tokenizer tokenizer =
      load_or_die(small_byte_level(),
                  R"({"bos_token": {"content": "<|im_start|>"}, "eos_token": "<|im_end|>"})");
  EXPECT_EQ(tokenizer.bos(), kImStart);
  EXPECT_EQ(tokenizer.eos(), kImEnd);
  EXPECT_TRUE(tokenizer.is_special(kImEnd));
  EXPECT_FALSE(tokenizer.is_special(kHello));
  EXPECT_EQ(tokenizer.find("<|im_end|>"), kImEnd);
  EXPECT_EQ(tokenizer.find("hello"), kHello);
  EXPECT_EQ(tokenizer.find("absent"), std::nullopt);
}

TEST(ByteLevelTokenizer, IgnoreMergesTakesAWholePieceThatIsAToken) {
  Json json = small_byte_level();
  json["model"]["vocab"]["zz"] = 265;  // no merge makes it
  EXPECT_THAT(encode(load_or_die(json), "zz"), ElementsAre('z', 'z'));
  json["model"]["ignore_merges"] = true;
  EXPECT_THAT(encode(load_or_die(json), "zz"), ElementsAre(265));
  EXPECT_THAT(encode(load_or_die(json), "zzz"), ElementsAre('z', 'z', 'z'));
}

TEST(ByteLevelTokenizer, PutsASpaceBeforeTheTextIfTheFileSaysSo) {
  Json json = small_byte_level();
  json["pre_tokenizer"]["add_prefix_space"] = true;
  const Tokenizer tokenizer = load_or_die(json);
  EXPECT_THAT(encode(tokenizer, "wo"), ElementsAre(kSpaceW, 'o'));
  EXPECT_THAT(encode(tokenizer, " wo"), ElementsAre(kSpaceW, 'o'));
}

TEST(ByteLevelTokenizer, TheTemplateAddsTokensAroundTheText) {
  Json json = small_byte_level();
  json["post_processor"] = Json::parse(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "S", "type_id": 0}}, {"Sequence": {"id": "A"}},
                 {"SpecialToken": {"id": "E", "type_id": 0}}], "pair": [],
      "special_tokens": {"S": {"id": "S", "ids": [263], "tokens": ["S"]},
                         "E": {"id": "E", "ids": [264], "tokens": ["E"]}}})");
  const Tokenizer tokenizer = load_or_die(json);
  EXPECT_THAT(encode(tokenizer, "a"), ElementsAre(kImStart, 'a', kImEnd));
  EXPECT_THAT(encode(tokenizer, "a", {.add_special_tokens = false}), ElementsAre('a'));
}

TEST(ByteLevelTokenizer, ReadsIllFormedTextAsReplacementCharacters) {
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  // Python: b'a\xf0\x9f\x98b\xff\xc3'.decode(errors='replace') == 'a\ufffdb\ufffd\ufffd'
  EXPECT_EQ(encode(tokenizer,
                   "a\xf0\x9f\x98"
                   "b\xff\xc3"),
            encode(tokenizer, "a\uFFFDb\uFFFD\uFFFD"));
}

// Drawn from parts that tokens are made of, and from what normalisers change.
std::string drawn_text(std::mt19937& draw) {
  static const std::vector<std::string> kParts = {"hello",
                                                  " ",
                                                  "    ",
                                                  "a",
                                                  "ab",
                                                  "b",
                                                  "▁",
                                                  "▁▁▁",
                                                  "é",
                                                  "e\xCC\x81",
                                                  "Å",
                                                  "각",
                                                  "\xF0\x9D\x90\x80",
                                                  "ffi",
                                                  "ﬃ",
                                                  "\xFF",
                                                  "<|im_end|>",
                                                  "<s>",
                                                  "\n",
                                                  "0"};
  std::string text;
  for (int i = 0; i < 40; ++i) text += kParts[draw() % kParts.size()];
  return text;
}

TEST(FewestTokens, NoTextHasFewer) {
  std::vector<Json> files = {small_byte_level(), small_sentencepiece()};
  for (const char* form : {"NFC", "NFD", "NFKC", "NFKD", "Lowercase"}) {
    files.push_back(small_byte_level());
    files.back()["normalizer"] = {{"type", form}};
  }
  std::mt19937 draw(1);
  for (const Json& file : files) {
    const Tokenizer tokenizer = load_or_die(file);
    EXPECT_GT(tokenizer.fewest_tokens(100000), 100u) << file["normalizer"].dump();
    for (int i = 0; i < 500; ++i) {
      const std::string text = drawn_text(draw);
      for (const bool special : {false, true}) {
        const auto ids = encode(tokenizer, text, {.parse_special = special});
        ASSERT_GE(ids.size(), tokenizer.fewest_tokens(text.size())) << text;
      }
    }
  }
}

TEST(FewestTokens, IsNoneWhereATextMayGetLost) {
  Json strips = small_byte_level();
  strips["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  Json takes_space = small_byte_level();
  takes_space["added_tokens"][0]["lstrip"] = true;
  Json drops = small_byte_level();
  drops["pre_tokenizer"] = {{"type", "Sequence"},
                            {"pretokenizers",
                             {{{"type", "Split"},
                               {"pattern", {{"String", " "}}},
                               {"behavior", "Removed"},
                               {"invert", false}},
                              {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}};
  for (const Json& file : {strips, takes_space, drops}) {
    EXPECT_EQ(load_or_die(file).fewest_tokens(1 << 20), 0u) << file["normalizer"].dump();
  }
}

}  // namespace
}  // namespace outrider
