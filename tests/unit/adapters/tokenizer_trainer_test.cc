// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "adapters/data/robot_text.h"
#include "adapters/tokenizer/bpe_trainer.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/conversation/chat_template.h"

namespace outrider {
namespace {

std::vector<std::string> robot_texts(int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    const RobotExample example =
        make_robot_example(1, static_cast<std::uint64_t>(i), Split::kTrain);
    texts.push_back(example.prompt);
    texts.push_back(example.answer);
  }
  return texts;
}

Tokenizer load(const TrainedBpe& bpe) {
  const auto vocab = static_cast<std::int32_t>(bpe.pieces.size()) + kNumSpecialTokens;
  Result<Tokenizer> tokenizer =
      Tokenizer::load_json(tokenizer_json(bpe), tokenizer_config_json(vocab, 1024));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  return std::move(*tokenizer);
}

TEST(BpeTrainer, MergesTheMostFrequentPairFirst) {
  const Result<TrainedBpe> bpe = train_bpe({"aab aab aab cd cd"}, 259 + 3);
  ASSERT_TRUE(bpe.ok());
  // "aa" and "ab" stand three times, so the pair of lower ids is first; then "aab", three times;
  // then " aab", " cd" and "cd" twice each: "cd" has the lowest ids.
  EXPECT_EQ(bpe->pieces[256], "aa");
  EXPECT_EQ(bpe->pieces[257], "aab");
  EXPECT_EQ(bpe->pieces[258], "cd");
}

TEST(BpeTrainer, NeverMergesAPairThatStandsOnce) {
  const Result<TrainedBpe> bpe = train_bpe({"abcdef"}, 4096);
  ASSERT_TRUE(bpe.ok());
  EXPECT_TRUE(bpe->merges.empty());
  EXPECT_EQ(bpe->pieces.size(), 256u);
}

TEST(BpeTrainer, TheSameTextsGiveTheSameFiles) {
  const std::vector<std::string> texts = robot_texts(200);
  const Result<TrainedBpe> first = train_bpe(texts, 400), second = train_bpe(texts, 400);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(tokenizer_json(*first), tokenizer_json(*second));
}

TEST(BpeTrainer, OurTokenizerLoadsItAndRoundTripsAnyText) {
  const Result<TrainedBpe> bpe = train_bpe(robot_texts(200), 400);
  ASSERT_TRUE(bpe.ok());
  const Tokenizer tokenizer = load(*bpe);
  EXPECT_EQ(tokenizer.vocab_size(), 400);
  EXPECT_EQ(tokenizer.find("<|endoftext|>"), 397);
  EXPECT_EQ(tokenizer.find("<|im_end|>"), 399);
  for (const std::string text : {"The red chair is 20 degrees left.\nAction: stop",
                                 "  two  spaces\t\r\n", "naïve 日本 🤖"}) {
    const Result<std::vector<TokenId>> ids = tokenizer.encode(text);
    ASSERT_TRUE(ids.ok());
    const Result<std::string> back = tokenizer.decode(*ids);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, text);
  }
}

TEST(BpeTrainer, DigitsStayAlone) {
  const Result<TrainedBpe> bpe = train_bpe({"123 123 123 123 456 456 456"}, 300);
  ASSERT_TRUE(bpe.ok());
  const Tokenizer tokenizer = load(*bpe);
  EXPECT_EQ(tokenizer.encode("123")->size(), 3u);
}

TEST(BpeTrainer, ItsChatTemplateIsChatMl) {
  const Result<TrainedBpe> bpe = train_bpe(robot_texts(50), 300);
  ASSERT_TRUE(bpe.ok());
  const Tokenizer tokenizer = load(*bpe);
  const Result<ChatTemplate> chat = ChatTemplate::choose(tokenizer, "");
  ASSERT_TRUE(chat.ok()) << chat.status().to_string();
  const auto ids = chat->encode_chat(tokenizer, {{ChatRole::kUser, "hi"}});
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(*tokenizer.decode(*ids, false),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(BpeTrainer, RefusesImpossibleSizesAndEmptyText) {
  EXPECT_EQ(train_bpe({"text"}, 258).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(train_bpe({"text"}, 1 << 21).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(train_bpe({}, 300).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
