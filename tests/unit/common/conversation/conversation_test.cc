// SPDX-License-Identifier: Apache-2.0
#include "common/conversation/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/paths.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Ids = std::vector<TokenId>;

// Its tokenizer knows the chatml template.
class ConversationTest : public testing::Test {
 protected:
  const Tokenizer tokenizer_ = *Tokenizer::load(source_dir() + "/models/demo-draft");
  const ChatTemplate template_ = *ChatTemplate::choose(tokenizer_, "");
  const TokenId end_of_turn_ = *template_.end_of_turn(tokenizer_);
};

TEST_F(ConversationTest, APromptIsTheFirstMessageOfAConversationUnlessItIsRaw) {
  const EncodedPrompt said = *encode_prompt(tokenizer_, "Hello", "");
  EXPECT_EQ(said.ids, *template_.encode_chat(tokenizer_, {{ChatRole::kUser, "Hello"}}));
  EXPECT_THAT(said.stop_ids, ElementsAre(end_of_turn_));
  const EncodedPrompt raw = *encode_prompt(tokenizer_, "Hello", "none");
  EXPECT_EQ(raw.ids, *tokenizer_.encode("Hello"));
  EXPECT_THAT(raw.stop_ids, IsEmpty());
  EXPECT_EQ(encode_prompt(tokenizer_, "Hello", "magic").status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(ConversationTest, LaterPromptsBeginWithAllThatWasSaid) {
  Conversation chat = *Conversation::create(tokenizer_, "");
  const EncodedPrompt first = *chat.ask("Hello");
  for (const bool ended : {true, false}) {
    Ids answer = *tokenizer_.encode("Hi.");
    if (ended) answer.push_back(end_of_turn_);
    chat.record_answer(first, answer);
    const EncodedPrompt second = *chat.ask("And now?");
    Ids whole = first.ids;
    whole.insert(whole.end(), answer.begin(), answer.end());
    const Ids next = *template_.encode_next_turn(tokenizer_, "And now?", ended);
    whole.insert(whole.end(), next.begin(), next.end());
    EXPECT_EQ(second.ids, whole);
  }
  chat.clear();
  EXPECT_EQ(chat.ask("Hello")->ids, first.ids);
}

}  // namespace
}  // namespace outrider
