// SPDX-License-Identifier: Apache-2.0
#include "adapters/answers/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/paths.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

class OwnPromptsTest : public testing::Test {
 protected:
  std::vector<TokenId> ids(const std::string& text) const { return *tokenizer_.encode(text); }

  const Tokenizer tokenizer_ = *Tokenizer::load(source_dir() + "/models/demo-draft");
};

TEST_F(OwnPromptsTest, TheOpeningIsWhatEveryPromptBeginsWith) {
  const ChatTemplate chat = *ChatTemplate::choose(tokenizer_, "chatml");
  const std::vector<TokenId> opening = *opening_of_user_turn(chat, tokenizer_);
  EXPECT_EQ(*tokenizer_.decode(opening, false), "<|im_start|>user\n");
  const std::vector<TokenId> whole =
      *chat.encode_chat(tokenizer_, {{ChatRole::kUser, "Where is the cup?"}});
  ASSERT_LT(opening.size(), whole.size());
  EXPECT_TRUE(std::equal(opening.begin(), opening.end(), whole.begin()));
}

TEST_F(OwnPromptsTest, EveryFamilyThatTheTokenizerHasOpensATurn) {
  for (const char* family : {"llama2", "llama3", "vicuna", "chatml", "zephyr"}) {
    const Result<ChatTemplate> chat = ChatTemplate::choose(tokenizer_, family);
    if (chat.status().code() == StatusCode::kFailedPrecondition) continue;  // lacks its tokens
    ASSERT_TRUE(chat.ok()) << chat.status().message();
    const Result<std::vector<TokenId>> opening = opening_of_user_turn(*chat, tokenizer_);
    ASSERT_TRUE(opening.ok()) << opening.status().message();
    EXPECT_FALSE(opening->empty()) << family;
  }
}

TEST_F(OwnPromptsTest, BrokenShortAndRepeatedMessagesGo) {
  const std::vector<std::vector<TokenId>> written = {
      ids(" Where is the cup?\n"),    ids("Two words"),     {}, ids("Where is the cup?"),
      ids("It is \xef\xbf\xbd here"), ids("Bring me a cup")};
  EXPECT_THAT(*messages_of(written, 100, tokenizer_),
              ElementsAre("Where is the cup?", "Bring me a cup"));
}

TEST_F(OwnPromptsTest, AMessageThatWasCutGoes) {
  const std::vector<TokenId> whole = ids("Where is the cup?");
  EXPECT_TRUE(messages_of({whole}, std::ssize(whole), tokenizer_)->empty());
  EXPECT_EQ(messages_of({whole}, std::ssize(whole) + 1, tokenizer_)->size(), 1u);
}

}  // namespace
}  // namespace outrider
