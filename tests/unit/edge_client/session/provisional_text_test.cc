// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/provisional_text.h"

#include <gtest/gtest.h>

#include <string>

namespace outrider {
namespace {

// Token 3 reads "d".
class Letters final : public AnswerText {
 public:
  Update push(TokenId token) override { return {.text = letter(token), .stopped = false}; }
  std::string finish() override { return {}; }
  std::string preview(std::span<const TokenId> tokens) const override {
    std::string text;
    for (const TokenId token : tokens) text += letter(token);
    return text;
  }

 private:
  static std::string letter(TokenId token) {
    return std::string(1, static_cast<char>('a' + token));
  }
};

class ProvisionalTextTest : public testing::Test {
 protected:
  NodeIndex grow(NodeIndex parent, TokenId token, float confidence) {
    const NodeIndex node = tree_.add(parent, token);
    tree_.set_confidence(node, confidence);
    return node;
  }
  // What is shown anew; "-": nothing has changed.
  std::string update(std::vector<TokenId> stop_ids = {}) {
    const auto shown = provisional_.update(stop_ids);
    return shown ? shown->text : "-";
  }

  MirroredTree tree_{{7, 7}};
  Letters text_;
  ProvisionalText provisional_{tree_, text_};
};

TEST_F(ProvisionalTextTest, IsTheLikeliestBranchAndToldOnce) {
  const NodeIndex likely = grow(kRoot, 1, 0.6f);
  grow(kRoot, 2, 0.3f);
  grow(likely, 3, 0.5f);
  EXPECT_EQ(update(), "bd");
  EXPECT_EQ(update(), "-");
  grow(kRoot, 4, 0.9f);
  EXPECT_EQ(update(), "e") << "likelier than what was shown";
}

TEST_F(ProvisionalTextTest, IsToldAnewBehindEveryVerdict) {
  grow(grow(kRoot, 1, 0.6f), 3, 0.5f);
  EXPECT_EQ(update(), "bd");
  tree_.commit(std::vector<TokenId>{1});
  EXPECT_EQ(update(), "d") << "the committed token is text now";
  tree_.commit(std::vector<TokenId>{5});
  EXPECT_EQ(update(), "");
}

TEST_F(ProvisionalTextTest, EndsBeforeAStopTokenAndWithTheAnswer) {
  grow(grow(kRoot, 1, 0.6f), 3, 0.5f);
  EXPECT_EQ(update({3}), "b");
  const auto end = provisional_.end();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->text, "");
  EXPECT_FALSE(provisional_.end().has_value());
}

}  // namespace
}  // namespace outrider
