// SPDX-License-Identifier: Apache-2.0
#include "common/conversation/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/paths.h"

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

}  // namespace
}  // namespace outrider
