// The passes of the stock verifier, over a server that is a function of the text. (Its protocols,
// against servers that speak them: tests/e2e/stock_test.py.) SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/stock/stock_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/paths.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Counts: behind token t comes t + 1, and behind the last the text ends.
class CountingServer final : public StockServer {
 public:
  explicit CountingServer(TokenId last = 1000)
      : StockServer({.api = ServerApi::kVllm, .model = {}, .remote = {}}, {}), last_(last) {}

  Result<StockModel> open(const std::stop_token&) override {
    ++opened;
    return StockModel{.name = "counter", .context = 512, .probe_took = probe_took};
  }

  Result<StockChoices> judge(std::span<const TokenId> text, std::span<const TokenId> drafted,
                             const std::stop_token&) override {
    judged.emplace_back(drafted.begin(), drafted.end());
    StockChoices choices;
    if (says_little) return choices;
    for (TokenId next = text.back() + 1; choices.tokens.size() <= drafted.size(); ++next) {
      choices.tokens.push_back(next);
      if (choices.tokens.size() > drafted.size()) break;
      if (drafted[choices.tokens.size() - 1] != next) break;
    }
    return choices;
  }

  Result<StockChoices> go_on(std::span<const TokenId> text, std::size_t count,
                             const std::stop_token& stop) override {
    asked.push_back(count);
    if (waits) {
      is_asked = true;
      while (!stop.stop_requested()) std::this_thread::yield();
      return cancelled("interrupted");
    }
    if (!fault.ok()) return std::exchange(fault, Status());
    StockChoices choices;
    if (says_nothing) return choices;
    for (TokenId next = text.back() + 1; choices.tokens.size() < count; ++next) {
      if (next > last_) {
        choices.ended = true;
        break;
      }
      choices.tokens.push_back(next);
    }
    return choices;
  }

  int opened = 0;
  Duration probe_took{0};
  std::vector<std::vector<TokenId>> judged;
  std::vector<std::size_t> asked;
  bool says_little = false, says_nothing = false;
  bool waits = false;
  std::atomic<bool> is_asked = false;
  Status fault;

 private:
  const TokenId last_;
};

class StockVerifierTest : public testing::Test {
 protected:
  StockVerifierTest() { use(1000); }

  void use(TokenId last) {
    verifier_.reset();
    auto server = std::make_unique<CountingServer>(last);
    server_ = server.get();
    verifier_ = std::make_unique<StockVerifier>(std::move(server), ServerApi::kVllm, tokenizer_);
  }

  Open open(std::vector<TokenId> prefix, Position tokens) const {
    Open open;
    open.tokenizer_hash = tokenizer_.content_hash();
    open.end_position = static_cast<Position>(prefix.size()) + tokens;
    open.prefix = std::move(prefix);
    open.policy.pass_policy = PassPolicy::kEager;
    return open;
  }

  // Runs a stream to its end. first: known before its session opens, as the prefix comes last.
  Status run(Open open, const std::vector<EdgeMessage>& first = {}) {
    verdicts_.clear();
    others_.clear();
    ended_ = {};
    verifier_->start(1, [this](const FromVerifier& from) { on(from); });
    const Prefix prefix{std::exchange(open.prefix, {})};
    open.prefix_length = static_cast<Position>(prefix.ids.size());
    verifier_->send({.body = open});
    for (const EdgeMessage& message : first) verifier_->send(message);
    verifier_->send({.body = prefix});
    if (server_->waits) {
      while (!server_->is_asked) std::this_thread::yield();
      verifier_->send({.body = Cancel{}});
    }
    return ended_.get_future().get();
  }

  void on(const FromVerifier& from) {
    if (const auto* end = std::get_if<StreamEnded>(&from.event)) {
      return ended_.set_value(end->status);
    }
    const auto& message = std::get<ServerMessage>(from.event);
    if (const auto* verdict = std::get_if<Verdict>(&message)) {
      verdicts_.push_back(*verdict);
    } else {
      others_.push_back(message);
    }
  }

  std::vector<TokenId> answer() const {
    std::vector<TokenId> tokens;
    for (const Verdict& verdict : verdicts_) {
      tokens.insert(tokens.end(), verdict.tokens.begin(), verdict.tokens.end());
    }
    return tokens;
  }

  template <typename T>
  const T* find() const {
    for (const ServerMessage& message : others_) {
      if (const auto* found = std::get_if<T>(&message)) return found;
    }
    return nullptr;
  }

  const Tokenizer tokenizer_ = *Tokenizer::load(source_dir() + "/models/demo-draft");
  CountingServer* server_ = nullptr;
  std::unique_ptr<StockVerifier> verifier_;
  std::promise<Status> ended_;
  std::vector<Verdict> verdicts_;
  std::vector<ServerMessage> others_;
};

TEST_F(StockVerifierTest, PlainRequestsAskForMoreEachTimeAndEachTokenIsAPass) {
  ASSERT_TRUE(run(open({5, 6}, 9)).ok());
  EXPECT_THAT(answer(), ElementsAre(7, 8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_EQ(verdicts_.size(), 9u);
  EXPECT_THAT(server_->asked, ElementsAre(1, 2, 4, 2)) << "and no more than are wanted";
  ASSERT_NE(find<Opened>(), nullptr);
  EXPECT_EQ(find<Opened>()->arithmetic_id, kForeignArithmetic);
  EXPECT_EQ(find<Opened>()->limits.max_positions, 512);
  EXPECT_EQ(find<Usage>()->reason, FinishReason::kLength);
}

TEST_F(StockVerifierTest, TheLikeliestChainIsJudgedByOneRequest) {
  // 7 8 20 is the likeliest chain, 7 9 another branch.
  const Grow grow{.first_id = 1,
                  .anchor_position = 2,
                  .nodes = {{.token = 7, .parent = 0, .confidence = 200},
                            {.token = 9, .parent = 1, .confidence = 40},
                            {.token = 8, .parent = 2, .confidence = 180},
                            {.token = 20, .parent = 1, .confidence = 90}}};
  ASSERT_TRUE(run(open({5, 6}, 9)).ok()) << "plain requests are measured";
  ASSERT_TRUE(run(open({5, 6}, 5), {{.body = grow}}).ok());
  EXPECT_THAT(server_->judged, ElementsAre(ElementsAre(7, 8, 20)));
  EXPECT_THAT(verdicts_.front().tokens, ElementsAre(7, 8, 9));
  EXPECT_THAT(answer(), ElementsAre(7, 8, 9, 10, 11));
}

TEST_F(StockVerifierTest, WhereAJudgementLeavesItOpenTheServerGoesOn) {
  server_->says_little = true;
  const Grow grow{.first_id = 1, .anchor_position = 2, .nodes = {{.token = 7}}};
  ASSERT_TRUE(run(open({5, 6}, 9)).ok()) << "plain requests are measured";
  ASSERT_TRUE(run(open({5, 6}, 3), {{.body = grow}}).ok());
  EXPECT_THAT(server_->judged, ElementsAre(ElementsAre(7)));
  EXPECT_THAT(answer(), ElementsAre(7, 8, 9));
}

TEST_F(StockVerifierTest, NothingIsJudgedBeforeItIsKnownToPay) {
  const Grow grow{.first_id = 1, .anchor_position = 2, .nodes = {{.token = 7}}};
  server_->probe_took = std::chrono::seconds(100);
  for (int stream = 0; stream < 3; ++stream) {
    ASSERT_TRUE(run(open({5, 6}, 40), {{.body = grow}}).ok());
  }
  EXPECT_THAT(server_->judged, IsEmpty());
  EXPECT_EQ(server_->opened, 1);
}

TEST_F(StockVerifierTest, TheServersEndIsAStopToken) {
  use(8);
  ASSERT_TRUE(run(open({5, 6}, 20)).ok());
  EXPECT_THAT(answer(), ElementsAre(7, 8, *tokenizer_.eos()));
  EXPECT_EQ(find<Usage>()->reason, FinishReason::kStop);
}

TEST_F(StockVerifierTest, WhatCannotBeFollowedIsRefusedByName) {
  Open warm = open({5}, 4);
  warm.sampling.temperature = 0.5f;
  EXPECT_THAT(run(warm).message(), HasSubstr("a temperature above 0"));
  Open likely = open({5}, 4);
  likely.top_logprobs = 1;
  EXPECT_THAT(run(likely).message(), HasSubstr("log-probabilities"));
  Open endless = open({5}, 4);
  endless.ignore_target_stops = true;
  EXPECT_THAT(run(endless).message(), HasSubstr("ignore_eos"));
  EXPECT_EQ(server_->opened, 0) << "nothing is asked of the server";
}

TEST_F(StockVerifierTest, TheDelayOfAServerThatLimitsRatesComesBeforeTheEnd) {
  server_->fault = resource_exhausted("slow down");
  EXPECT_EQ(run(open({5}, 4)).code(), StatusCode::kResourceExhausted);
  ASSERT_NE(find<Notice>(), nullptr);
  EXPECT_EQ(find<Notice>()->kind, Notice::Kind::kOverloaded);
  ASSERT_TRUE(run(open({5}, 4)).ok());
  EXPECT_EQ(server_->opened, 2) << "after a failure the server is looked at again";
}

TEST_F(StockVerifierTest, ACancelCutsARequest) {
  server_->waits = true;
  ASSERT_TRUE(run(open({5}, 4)).ok());
  EXPECT_EQ(find<Usage>()->reason, FinishReason::kCancelled);
  EXPECT_THAT(answer(), IsEmpty());
}

TEST_F(StockVerifierTest, ATokenThatTheTokenizerLacksEndsTheStream) {
  use(tokenizer_.vocab_size());
  const Status ended = run(open({tokenizer_.vocab_size() - 1}, 4));
  EXPECT_EQ(ended.code(), StatusCode::kInternal);
  EXPECT_THAT(ended.message(), HasSubstr(std::to_string(tokenizer_.vocab_size())));
}

TEST_F(StockVerifierTest, AServerThatSaysNothingEndsTheStream) {
  server_->says_nothing = true;
  EXPECT_THAT(run(open({5}, 4)).message(), HasSubstr("chose no token"));
}

TEST(JudgingGains, JudgingBeginsWhereItBringsTime) {
  JudgingGains gains;
  gains.begin(from_ms(30));
  EXPECT_TRUE(gains.needs_plain());
  EXPECT_FALSE(gains.pays());
  gains.add(false, 16, from_ms(160));
  EXPECT_FALSE(gains.needs_plain());
  EXPECT_TRUE(gains.pays()) << "six milliseconds a token, and ten by plain requests";
  gains.add(true, 1, from_ms(100));
  EXPECT_FALSE(gains.pays()) << "rounds bring less than the probe would have";
}

TEST(JudgingGains, WhatLosesTimeIsProbedAgainOnceThatIsASmallPartOfAll) {
  JudgingGains gains;
  gains.begin(from_ms(1000));
  gains.add(false, 16, from_ms(160));
  EXPECT_FALSE(gains.pays());
  gains.add(false, 1000, from_ms(10000));
  EXPECT_FALSE(gains.needs_probe()) << "950 ms lost, of 11 s";
  gains.add(false, 1000, from_ms(10000));
  EXPECT_TRUE(gains.needs_probe()) << "of 21 s";
  EXPECT_FALSE(gains.pays()) << "a text that is being written is left alone";
  gains.begin(from_ms(30));
  gains.add(false, 16, from_ms(160));
  EXPECT_TRUE(gains.pays());
}

TEST_F(StockVerifierTest, RequestsAreMeasured) {
  const std::vector<TokenId> text = {5, 6};
  const Result<StockCosts> costs = verifier_->measure(text, {});
  ASSERT_TRUE(costs.ok()) << costs.status().message();
  EXPECT_THAT(server_->judged, ElementsAre(ElementsAre(7, 8, 9, 10)));
  EXPECT_EQ((StockCosts{.plain_ms = 2, .judge_ms = 7}.tokens_to_pay()), 3.5);
  use(8);
  EXPECT_EQ(verifier_->measure(text, {}).status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace outrider
