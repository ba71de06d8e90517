// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/resident.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

struct Answer {
  std::vector<TokenId> tokens;
  Status status;
};

// Asks for a whole answer and waits for it.
Answer answer(Verifier& verifier, const Open& open, std::uint32_t epoch = 1) {
  Answer answer;
  std::promise<void> ended;
  verifier.start(epoch, [&](const FromVerifier& from) {
    EXPECT_EQ(from.epoch, epoch);
    const VerifierEvent& event = from.event;
    if (const auto* message = std::get_if<ServerMessage>(&event)) {
      const auto* verdict = std::get_if<Verdict>(message);
      if (verdict == nullptr) return;
      answer.tokens.insert(answer.tokens.end(), verdict->tokens.begin(), verdict->tokens.end());
    } else {
      answer.status = std::get<StreamEnded>(event).status;
      ended.set_value();
    }
  });
  verifier.send({.body = open});
  ended.get_future().wait();
  return answer;
}

Open cloud_decoding(std::vector<TokenId> prefix) {
  Open open;
  open.end_position = static_cast<Position>(prefix.size()) + 12;
  open.prefix = std::move(prefix);
  open.policy.pass_policy = PassPolicy::kEager;
  return open;
}

std::vector<TokenId> expected(const ToyModel& model, const Open& open) {
  const std::vector<TokenId> text =
      model.decode(open.prefix, open.end_position, open.sampling, open.seed);
  return {text.begin() + static_cast<std::ptrdiff_t>(open.prefix.size()), text.end()};
}

TEST(ResidentVerifier, AnswersOneStreamAfterTheOther) {
  ToyModel model;
  SystemClock clock;
  VerifyEngine engine(model, {}, clock);
  ResidentVerifier verifier(engine);
  for (const TokenId first : {1, 5}) {
    const Open open = cloud_decoding({first, 2});
    const Answer got = answer(verifier, open, static_cast<std::uint32_t>(first));
    EXPECT_TRUE(got.status.ok());
    EXPECT_EQ(got.tokens, expected(model, open));
  }
}

TEST(ResidentVerifier, TellsWhyAStreamIsRefused) {
  ToyModel model;
  SystemClock clock;
  VerifyEngine engine(model, {.tokenizer_hash = "ours"}, clock);
  ResidentVerifier verifier(engine);
  EXPECT_EQ(answer(verifier, cloud_decoding({1})).status.code(), StatusCode::kFailedPrecondition);
}

TEST(ResidentVerifier, DropsMessagesWithoutAStream) {
  ToyModel model;
  SystemClock clock;
  VerifyEngine engine(model, {}, clock);
  ResidentVerifier verifier(engine);
  verifier.send({.body = Cancel{}});
  verifier.stop();
  verifier.start(1, [](const FromVerifier&) {});
  verifier.stop();
  verifier.send({.body = Cancel{}});
  EXPECT_TRUE(engine.wait_until_idle(std::chrono::minutes(1)));
  EXPECT_EQ(engine.stats().streams_open, 0u);
}

}  // namespace
}  // namespace outrider
