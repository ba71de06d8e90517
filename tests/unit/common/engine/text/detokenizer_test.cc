// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "common/engine/text/pipeline/utf8.h"
#include "common/engine/text/streaming_detokenizer.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

namespace outrider {
namespace {

std::vector<std::string> pieces_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  StreamingDetokenizer stream(tokenizer);
  std::vector<std::string> pieces;
  for (const TokenId id : ids) pieces.push_back(*stream.push(id));
  pieces.push_back(stream.finish());
  return pieces;
}

using Strings = std::vector<std::string>;

TEST(StreamingDetokenizer, WaitsForTheLastByteOfACharacter) {
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  EXPECT_EQ(pieces_of(tokenizer, {'a', 0xF0, 0x9F, 0x98, 0x80, 'b'}),
            (Strings{"a", "", "", "", "😀", "b", ""}));
}

TEST(StreamingDetokenizer, ReplacesBytesThatCanNoLongerBecomeACharacter) {
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  EXPECT_EQ(pieces_of(tokenizer, {0xF0, 0x9F, 'b', 0xFF, 0xE2, 0x82}),
            (Strings{"", "", "\uFFFDb", "\uFFFD", "", "", "\uFFFD"}));
}

// Filtering text is the terminal's task, not the tokenizer's.
TEST(StreamingDetokenizer, KeepsHostileTextAsItIs) {
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  const std::string text("\u202Eevil\u202C שלום\u200F\0\r\n\033[2J", 29);
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  std::string all;
  for (const std::string& piece : pieces_of(tokenizer, ids)) all += piece;
  EXPECT_EQ(all, text);
  EXPECT_EQ(*tokenizer.decode(*tokenizer.encode(text)), text);
}

TEST(StreamingDetokenizer, LeavesOutTheSpaceThatSentencePiecePutsInFront) {
  const Tokenizer tokenizer = load_or_die(small_sentencepiece());
  const TokenId word = *tokenizer.find("▁a");
  const TokenId eos = *tokenizer.find("</s>");
  EXPECT_EQ(pieces_of(tokenizer, {word, word}), (Strings{"a", " a", ""}));
  EXPECT_EQ(pieces_of(tokenizer, {eos, word, eos, word}), (Strings{"", "a", "", " a", ""}));
  EXPECT_EQ(*tokenizer.decode(std::vector<TokenId>{eos, word}, false), "</s> a");
}

TEST(StreamingDetokenizer, PutsByteFallbackTokensTogether) {
  const Tokenizer tokenizer = load_or_die(small_sentencepiece());
  const auto byte = [&](const char* name) { return *tokenizer.find(name); };
  const TokenId a = *tokenizer.find("a");
  EXPECT_EQ(pieces_of(tokenizer, {byte("<0xC3>"), byte("<0xA9>"), a}), (Strings{"", "é", "a", ""}));
  // One U+FFFD per byte, as Hugging Face writes a broken run.
  EXPECT_EQ(pieces_of(tokenizer, {byte("<0xE2>"), byte("<0x82>"), a}),
            (Strings{"", "", "\uFFFD\uFFFDa", ""}));
  EXPECT_EQ(pieces_of(tokenizer, {byte("<0xE2>")}), (Strings{"", "\uFFFD"}));
}

TEST(StreamingDetokenizer, StartsAfreshAfterFinish) {
  const Tokenizer tokenizer = load_or_die(small_sentencepiece());
  StreamingDetokenizer stream(tokenizer);
  const TokenId word = *tokenizer.find("▁a");
  EXPECT_EQ(*stream.push(word) + stream.finish(), "a");
  EXPECT_EQ(*stream.push(word) + stream.finish(), "a");
}

TEST(StreamingDetokenizer, AnUnknownIdChangesNothing) {
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  StreamingDetokenizer stream(tokenizer);
  ASSERT_TRUE(stream.push(0xC3).ok());
  EXPECT_EQ(stream.push(100'000).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(*stream.push(0xA9), "é");
}

// For any ids, every piece is whole characters, and all together are what decode() gives.
TEST(StreamingDetokenizer, NeverShowsHalfACharacter) {
  std::mt19937 random(3);
  for (const Json& json : {small_byte_level(), small_sentencepiece(), small_metaspace()}) {
    const Tokenizer tokenizer = load_or_die(json);
    for (int round = 0; round < 500; ++round) {
      std::vector<TokenId> ids;
      for (int i = 0; i < 12; ++i) {
        ids.push_back(
            static_cast<TokenId>(random() % static_cast<unsigned>(tokenizer.vocab_size())));
      }
      std::string all;
      for (const std::string& piece : pieces_of(tokenizer, ids)) {
        EXPECT_TRUE(is_utf8(piece));
        all += piece;
      }
      EXPECT_EQ(all, *tokenizer.decode(ids));
    }
  }
}

}  // namespace
}  // namespace outrider
