// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "common/serving/conversation/streamed_text.h"
#include "tests/support/paths.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Ids = std::vector<TokenId>;

// With a tokenizer that has the tokens of the chatml template.
class ConversationTest : public testing::Test {
 protected:
  const Tokenizer tokenizer_ = *Tokenizer::load(source_dir() + "/models/demo-draft");
  const ChatSource source_ = chat_source(tokenizer_);
  const ChatTemplate template_ = *ChatTemplate::choose(source_, "");
  const TokenId end_of_turn_ = *template_.end_of_turn(tokenizer_);
};

TEST_F(ConversationTest, APromptIsTheFirstMessageOfAConversationUnlessItIsRaw) {
  const EncodedPrompt said = *encode_prompt(tokenizer_, source_, "Hello", "");
  EXPECT_EQ(said.ids, *template_.encode_chat(tokenizer_, {{ChatRole::kUser, "Hello"}}));
  EXPECT_THAT(said.stop_ids, ElementsAre(end_of_turn_));
  const EncodedPrompt raw = *encode_prompt(tokenizer_, source_, "Hello", "none");
  EXPECT_EQ(raw.ids, *tokenizer_.encode("Hello"));
  EXPECT_THAT(raw.stop_ids, IsEmpty());
  EXPECT_EQ(encode_prompt(tokenizer_, source_, "Hello", "magic").status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(ConversationTest, LaterPromptsBeginWithAllThatWasSaid) {
  Conversation chat = *Conversation::create(tokenizer_, template_);
  const EncodedPrompt first = *chat.ask("Hello");
  for (const bool ended : {true, false}) {
    Ids answer = *tokenizer_.encode("Hi.");
    if (ended) answer.push_back(end_of_turn_);
    ASSERT_TRUE(chat.record_answer("Hello", first, answer).ok());
    const EncodedPrompt second = *chat.ask("And now?");
    Ids whole = first.ids;
    whole.insert(whole.end(), answer.begin(), answer.end());
    if (!ended) whole.push_back(end_of_turn_);
    const Ids next =
        *tokenizer_.encode("\n<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n",
                           {.add_special_tokens = false, .parse_special = true});
    whole.insert(whole.end(), next.begin(), next.end());
    EXPECT_EQ(second.ids, whole);
  }
  chat.clear();
  EXPECT_EQ(chat.ask("Hello")->ids, first.ids);
}

TEST_F(ConversationTest, TheOldestTurnsCanBeDropped) {
  for (const char* const name : {"", "qwen3"}) {  // the second rewrites everything in each turn
    const ChatTemplate form = *ChatTemplate::choose(source_, name);
    Conversation chat = *Conversation::create(tokenizer_, form);
    EXPECT_FALSE(chat.drop_oldest_turn());
    for (const char* const message : {"One?", "Two?"}) {
      Ids answer = *tokenizer_.encode("Yes.");
      answer.push_back(end_of_turn_);
      ASSERT_TRUE(chat.record_answer(message, *chat.ask(message), answer).ok());
    }
    ASSERT_TRUE(chat.drop_oldest_turn());
    EXPECT_EQ(chat.ask("Three?")->ids,
              *form.encode_chat(tokenizer_, {{ChatRole::kUser, "Two?"},
                                             {ChatRole::kAssistant, "Yes."},
                                             {ChatRole::kUser, "Three?"}}));
    ASSERT_TRUE(chat.drop_oldest_turn());
    EXPECT_TRUE(chat.empty());
    EXPECT_EQ(chat.ask("Three?")->ids,
              *form.encode_chat(tokenizer_, {{ChatRole::kUser, "Three?"}}));
  }
}

TEST_F(ConversationTest, APromptTellsTheTemplateThatWroteItUnlessTheUserNamedOne) {
  EXPECT_EQ(encode_prompt(tokenizer_, source_, "Hello", "")->template_hash, template_hash(source_));
  EXPECT_EQ(encode_prompt(tokenizer_, source_, "Hello", "chatml")->template_hash, "");
  EXPECT_EQ(encode_prompt(tokenizer_, source_, "Hello", "none")->template_hash, "");
  EXPECT_EQ(encode_prompt(tokenizer_, {}, "Hello", "")->ids, *tokenizer_.encode("Hello"));
  const Conversation chat = *Conversation::create(tokenizer_, template_);
  EXPECT_EQ(chat.ask("Hello")->template_hash, template_hash(source_));
}

// The model may spell a text in other ids than the tokenizer: the model's ids are kept, with their
// KV.
TEST_F(ConversationTest, TheIdsOfAnAnswerStayAsTheModelMadeThem) {
  Conversation chat = *Conversation::create(tokenizer_, template_);
  const EncodedPrompt first = *chat.ask("Hello");
  Ids answer;
  for (const char letter : std::string("the cup")) {
    const Ids one = *tokenizer_.encode(std::string(1, letter));
    answer.insert(answer.end(), one.begin(), one.end());
  }
  ASSERT_NE(answer, *tokenizer_.encode("the cup"));
  ASSERT_TRUE(chat.record_answer("Hello", first, answer).ok());
  const Ids second = chat.ask("And now?")->ids;
  Ids begin = first.ids;
  begin.insert(begin.end(), answer.begin(), answer.end());
  ASSERT_LT(begin.size(), second.size());
  EXPECT_TRUE(std::equal(begin.begin(), begin.end(), second.begin()));
}

// Qwen 3's template drops an earlier answer's thoughts: the next prompt is its text of the whole
// conversation.
TEST_F(ConversationTest, ATemplateThatRewritesAnswersWritesAllAnewWithEachTurn) {
  const ChatTemplate thinker = *ChatTemplate::choose(source_, "qwen3");
  Conversation chat = *Conversation::create(tokenizer_, thinker);
  const EncodedPrompt first = *chat.ask("Hello");
  Ids answer = *tokenizer_.encode("<think>\nA guest.\n</think>\n\nHi.");
  answer.push_back(end_of_turn_);
  ASSERT_TRUE(chat.record_answer("Hello", first, answer).ok());
  EXPECT_EQ(chat.ask("And now?")->ids,
            *thinker.encode_chat(tokenizer_, {{ChatRole::kUser, "Hello"},
                                              {ChatRole::kAssistant, "Hi."},
                                              {ChatRole::kUser, "And now?"}}));
}

TEST(RawText, SpecialTokensCountUnlessTheyStandForImages) {
  Json json = small_byte_level();
  int id = 265;
  for (const char* content : {"<|image_pad|>", "<|vision_start|>", "[IMG]", "<start_of_image>",
                              "<|AUDIO|>", "<|revision|>"}) {
    json["added_tokens"].push_back(
        {{"id", id++}, {"content", content}, {"special", true}, {"normalized", false}});
  }
  const Tokenizer tokenizer = load_or_die(json);
  const auto ids = [&](const std::string& text, const RawOptions& options = {}) {
    return *encode_raw(tokenizer, text, options);
  };
  const TokenId start = *tokenizer.find("<|im_start|>");
  EXPECT_EQ(ids("<|im_start|>a"), (Ids{start, 'a'}));
  EXPECT_EQ(ids("<|im_start|>a", {.parse_special = false}), *tokenizer.encode("<|im_start|>a"));
  EXPECT_EQ(ids("<|revision|>"), Ids{*tokenizer.find("<|revision|>")});
  for (const std::string media :
       {"<|image_pad|>", "<|vision_start|>", "[IMG]", "<start_of_image>", "<|AUDIO|>"}) {
    ASSERT_TRUE(tokenizer.is_special(*tokenizer.find(media))) << media;
    EXPECT_EQ(ids(media), *tokenizer.encode(media)) << media;
    Ids mixed = {start};
    const Ids text = *tokenizer.encode(media + "x");
    mixed.insert(mixed.end(), text.begin(), text.end());
    mixed.push_back(start);
    EXPECT_EQ(ids("<|im_start|>" + media + "x<|im_start|>"), mixed) << media;
  }
}

TEST(RawText, TheFirstTokenIsNotAddedWhereTheTextHasIt) {
  Json json = small_sentencepiece();
  json["post_processor"] = Json::parse(
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},
          {"Sequence":{"id":"A","type_id":0}}],"pair":[],
          "special_tokens":{"<s>":{"id":"<s>","ids":[1],"tokens":["<s>"]}}})");
  const Tokenizer tokenizer = load_or_die(json);
  const Ids once = *encode_raw(tokenizer, "ab");
  EXPECT_EQ(once.front(), 1);
  const Ids spelled = *encode_raw(tokenizer, "<s>ab");
  EXPECT_EQ(spelled.front(), 1);
  EXPECT_NE(spelled[1], 1);
  EXPECT_EQ(spelled, *encode_raw(tokenizer, "<s>ab", {.add_special = false}));
  EXPECT_EQ(*encode_raw(tokenizer, "ab", {.add_special = false}),
            Ids(once.begin() + 1, once.end()));
  EXPECT_EQ(encode_raw(tokenizer, "<s>ab", {.parse_special = false})->front(), 1)
      << "what is no token is framed";
  EXPECT_EQ(*encode_raw(tokenizer, ""), Ids{1});
}

TEST_F(ConversationTest, ARawPromptMayWriteTheTemplateItself) {
  const std::string written = "<|im_start|>user\nHello<|im_end|>\n";
  const EncodedPrompt raw = *encode_prompt(tokenizer_, source_, written, "none");
  EXPECT_EQ(raw.ids.front(), *tokenizer_.find("<|im_start|>"));
  const EncodedPrompt said = *encode_prompt(tokenizer_, source_, written, "");
  const auto starts = std::ranges::count(said.ids, *tokenizer_.find("<|im_start|>"));
  EXPECT_EQ(starts, std::ranges::count(encode_prompt(tokenizer_, source_, "Hello", "")->ids,
                                       *tokenizer_.find("<|im_start|>")))
      << "a message's text stays text";
}

// A preview is made with each report of an exit, so its cost must depend neither on the length of
// the answer nor on that of its stop texts.
TEST(StreamedText, APreviewOfALongAnswerIsQuick) {
#if defined(OUTRIDER_SANITIZED)
  constexpr std::chrono::seconds kMost{20};
#else
  constexpr std::chrono::seconds kMost{1};
#endif
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  const std::vector<TokenId> ids = *tokenizer.encode("a");
  const std::vector<std::string> stops(StopStrings::kMaxStops,
                                       std::string(StopStrings::kMaxStopBytes, 'b'));
  StreamedText text(tokenizer, *StopStrings::create(stops));
  for (int i = 0; i < 100'000; ++i) text.push(ids.front());
  const std::clock_t begin = std::clock();
  for (int i = 0; i < 10'000; ++i) EXPECT_EQ(text.preview(ids, false).text, "a");
  EXPECT_LT(std::chrono::seconds((std::clock() - begin) / CLOCKS_PER_SEC).count(), kMost.count());
}

}  // namespace
}  // namespace outrider
