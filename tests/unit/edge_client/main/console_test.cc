// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/console.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/json.h"
#include "common/serving/conversation/streamed_text.h"

namespace outrider {
namespace {

TEST(Terminal, IsNotSteeredByAModelsText) {
  EXPECT_EQ(without_controls("a\033[31mb\rc\n\td\x7f"), "a[31mbc\n\td");
  EXPECT_EQ(without_controls("x\u009bm é"), "xm é") << "C1 controls go, letters stay";
}

TEST(Terminal, IsNotTurnedRoundByAModelsText) {
  EXPECT_EQ(without_controls("a\u202Eb\u202Cc\u2066d\u2069\u202A"), "abcd");
  EXPECT_EQ(without_controls("שלום\u200F, سلام"), "שלום\u200F, سلام") << "letters and marks stay";
  EXPECT_EQ(without_controls("– …\u2070€"), "– …\u2070€") << "neighbours in the code";
}

// Byte-level without merges: a byte's value is its id.
Tokenizer bytes() {
  Json vocab = Json::object();
  int next_stand_in = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    const int letter = printable ? byte : next_stand_in++;
    std::string name;
    if (letter < 128) {
      name.push_back(static_cast<char>(letter));
    } else {
      name = {static_cast<char>(0xc0 | letter >> 6), static_cast<char>(0x80 | (letter & 63))};
    }
    vocab[name] = byte;
  }
  const Json json = {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}},
                     {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                     {"decoder", {{"type", "ByteLevel"}}},
                     {"added_tokens", Json::array()}};
  return *Tokenizer::load_json(json.dump());
}

TEST(StreamedText, HoldsBackWhatMayBeAStopStringAndEndsBeforeIt) {
  const Tokenizer tokenizer = bytes();
  StreamedText text(tokenizer, *StopStrings::create({"cde"}));
  std::string shown;
  for (const TokenId id : {'a', 'c', 'd', 'a', 'c', 'd', 'e'}) {
    const AnswerText::Update update = text.push(id);
    shown += update.text;
    EXPECT_EQ(update.stopped, id == 'e');
  }
  EXPECT_EQ(shown, "acda");
  EXPECT_EQ(text.text(), "acda");
  EXPECT_EQ(text.stop_string(), "cde");
}

TEST(StreamedText, GivesOutWhatItHeldBackWhenTheAnswerEnds) {
  const Tokenizer tokenizer = bytes();
  StreamedText text(tokenizer, *StopStrings::create({"cde"}));
  EXPECT_EQ(text.push('c').text, "");
  EXPECT_EQ(text.finish(), "c");
  EXPECT_EQ(text.stop_string(), "");
}

TEST(StreamedText, APreviewIsWhatWouldComeAndChangesNothing) {
  const Tokenizer tokenizer = bytes();
  StreamedText text(tokenizer, *StopStrings::create({"cde"}));
  text.push('a');
  EXPECT_EQ(text.preview(std::vector<TokenId>{'b', 'c'}, false).text, "b");
  EXPECT_EQ(text.preview(std::vector<TokenId>{'b', 'c'}, true).text, "bc");
  const AnswerText::Update stopped =
      text.preview(std::vector<TokenId>{'b', 'c', 'd', 'e', 'f'}, true);
  EXPECT_EQ(stopped.text, "b");
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(text.text(), "a");
}

TEST(StreamedText, ATokenWithoutTextIsShownAsOne) {
  const Tokenizer tokenizer = bytes();
  StreamedText text(tokenizer, *StopStrings::create({}));
  EXPECT_EQ(text.push(1000).text, "\uFFFD");
}

}  // namespace
}  // namespace outrider
