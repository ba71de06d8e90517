// Streams whose answers have a form, over real gRPC. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "common/engine/constraint/constraint_compiler.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {
namespace {

using testing::HasSubstr;

// Token 0 ends answers, the others are letters.
class ConstraintTest : public ServerTest {
 protected:
  ConstraintTest() { rpc_options_.constraints = &compiler_; }
  ~ConstraintTest() override {
    bystander_.reset();
    server_.reset();
  }
  void SetUp() override {
    if (!no_grammars().empty()) GTEST_SKIP() << no_grammars();
    ServerTest::SetUp();
  }

  Open open_with(const std::string& regex) const {
    Open open = honest_open();
    open.stop_ids = {0};
    open.seed = 5;
    open.sampling.temperature = 1;
    open.set_settings({.constraint = {.spec = {ConstraintKind::kRegex, regex}}}, kPrefixLength);
    return open;
  }

  // A form of the tokens 1 and 2 only, with at least one of them: (a|b)+.
  std::vector<TokenId> right_letters(const Open& open) const {
    std::vector<TokenId> text = open.prefix;
    while (static_cast<Position>(text.size()) < open.end_position && text.back() != 0) {
      std::vector<float> row = model_.logits_after(text);
      for (std::size_t token = 0; token < row.size(); ++token) {
        const bool may_end = text.size() > static_cast<std::size_t>(kPrefixLength);
        const bool may_come = token == 1 || token == 2 || (token == 0 && may_end);
        if (!may_come) row[token] = -std::numeric_limits<float>::infinity();
      }
      text.push_back(choose(row, open.sampling, open.seed, static_cast<Position>(text.size())));
    }
    return {text.begin() + kPrefixLength, text.end()};
  }

  ConstraintCompiler compiler_{[this] {
    std::vector<std::string> pieces(1);
    for (std::int32_t id = 1; id < model_.info().vocab_size; ++id) {
      pieces.emplace_back(1, static_cast<char>('a' + id - 1));
    }
    return GrammarVocabulary(pieces);
  }};
};

TEST_F(ConstraintTest, AnAnswerHasItsForm) {
  const Open open = open_with("(a|b)+");
  for (int time = 0; time < 2; ++time) {  // compiled, then kept
    TestEdge edge(address());
    edge.open(open);
    EXPECT_EQ(edge.finish(), Status());
    EXPECT_EQ(edge.answer(), right_letters(open));
  }
}

// The answer is longer than the server runs ahead, and acknowledgements follow the Cancel.
TEST_F(ConstraintTest, WhatComesBehindTheOpenWaitsForTheForm) {
  TestEdge edge(address());
  edge.open(open_with("(a|b|c){90}"));
  edge.send(Cancel{});
  EXPECT_EQ(edge.finish(), Status());
  EXPECT_EQ(edge.usage().reason, FinishReason::kCancelled);
}

TEST_F(ConstraintTest, AFormThatIsWrongIsRefused) {
  for (const auto& [regex, named] : std::initializer_list<std::pair<const char*, const char*>>{
           {"(a", "compiled"}, {"((a{1,999}){1,999}){1,999}", "repeats"}}) {
    TestEdge edge(address());
    edge.open(open_with(regex));
    const Status status = edge.finish();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(named));
  }
  Open endless = open_with("a+");
  endless.stop_ids.clear();
  TestEdge edge(address());
  edge.open(endless);
  EXPECT_THAT(edge.finish().message(), HasSubstr("a token that ends the answer"));
}

TEST_F(ConstraintTest, AnEdgeMayLeaveWhileItsFormIsCompiled) {
  for (int i = 0; i < 5; ++i) {
    TestEdge edge(address());
    edge.open(open_with("(a|b|c){1," + std::to_string(80 + i) + "}"));
    edge.stop();
  }
  expect_serves();
}

using WithoutConstraintsTest = ServerTest;

TEST_F(WithoutConstraintsTest, AServerWithoutATokenizerRefusesForms) {
  Open open = honest_open();
  open.set_settings({.constraint = {.spec = {ConstraintKind::kRegex, "a"}}}, kPrefixLength);
  TestEdge edge(address());
  edge.open(open);
  const Status status = edge.finish();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("cannot hold answers"));
}

}  // namespace
}  // namespace outrider
