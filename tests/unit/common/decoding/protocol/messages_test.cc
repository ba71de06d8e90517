// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/protocol/messages.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace outrider {
namespace {

// The bytes that the body's lists and texts have, beside the message itself.
std::size_t held_by(EdgeMessage::Body body) {
  return size_in_memory({.body = std::move(body)}) - sizeof(EdgeMessage);
}

// Each field holds a number of bytes of its own, so that the sum shows which one is left out.
TEST(SizeInMemory, AnOpenHoldsAllThatItsFieldsHold) {
  Open open;
  open.tokenizer_hash = std::string(1, 'x');
  open.expected_fingerprint = std::string(1 << 1, 'x');
  open.expected_arithmetic_id = std::string(1 << 2, 'x');
  open.replaced_session = std::string(1 << 3, 'x');
  open.session_key = std::string(1 << 4, 'x');
  open.prefix_hash = std::string(1 << 5, 'x');
  open.template_hash = std::string(1 << 6, 'x');
  open.prefix.resize(1 << 10);
  open.stop_ids.resize(1 << 11);
  open.settings.constraint.spec.text = std::string(1 << 7, 'x');
  open.settings.logit_bias.resize(1 << 13);
  open.settings.bad_words.assign(1, std::vector<TokenId>(1 << 15));
  EXPECT_EQ(held_by(open), 0xff + sizeof(TokenId) * ((1 << 10) + (1 << 11) + (1 << 15)) +
                               sizeof(LogitBias) * (1 << 13) + sizeof(std::vector<TokenId>));
  EXPECT_EQ(held_by(Open()), 0u);
}

TEST(SizeInMemory, AGrowHoldsItsNodesAndWhatTheDraftGuessed) {
  Grow grow{.nodes = std::vector<GrowNode>(3)};
  grow.candidates.push_back({.node = 1, .candidates = std::vector<DraftCandidate>(5)});
  grow.candidates.push_back({.node = 2, .candidates = std::vector<DraftCandidate>(7)});
  EXPECT_EQ(held_by(grow),
            3 * sizeof(GrowNode) + 2 * sizeof(CandidateSet) + 12 * sizeof(DraftCandidate));
}

TEST(SizeInMemory, WithoutListsAMessageHoldsNothing) {
  EXPECT_EQ(held_by(AckOnly()), 0u);
  EXPECT_EQ(held_by(Cancel()), 0u);
  EXPECT_EQ(held_by(Policy()), 0u);
  EXPECT_EQ(held_by(Prefix{std::vector<TokenId>(9)}), 9 * sizeof(TokenId));
}

}  // namespace
}  // namespace outrider
