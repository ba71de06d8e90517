// Padded streams as an observer of the wire sees them: messages of one size, with the same number
// for each pass. SPDX-License-Identifier: Apache-2.0
#include "proto/frame_padding.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {
namespace {

class PaddingTest : public ServerTest {
 protected:
  // The bytes of a whole answer with one pass per token.
  LinkBytes bytes_of_answer(TestEdge& edge) {
    const Open open = honest_open();
    edge.open(open);
    EXPECT_EQ(edge.finish(), Status());
    EXPECT_EQ(edge.answer(), right_answer(open));
    passes_ = edge.answer().size();
    return edge.link_bytes();
  }
  std::uint64_t passes_ = 0;
};

TEST_F(PaddingTest, UnpaddedMessagesHaveTheSizeOfWhatTheySay) {
  TestEdge edge(address());
  const LinkBytes bytes = bytes_of_answer(edge);
  EXPECT_LT(bytes.payload_down, bytes.messages_down * kPaddedBytes / 4);
  EXPECT_LT(bytes.messages_up, passes_ * kPaddedMessagesPerPass);
}

TEST_F(PaddingTest, AnEdgeThatAsksGetsAndSendsWholeFrames) {
  TestEdge edge({.server = address(), .pad_frames = true});
  const LinkBytes bytes = bytes_of_answer(edge);
  EXPECT_EQ(bytes.payload_up, bytes.messages_up * kPaddedBytes);
  EXPECT_EQ(bytes.payload_down % kPaddedBytes, 0u);
  EXPECT_GE(bytes.messages_up, passes_ * kPaddedMessagesPerPass);
}

class PaddingServerTest : public PaddingTest {
 protected:
  PaddingServerTest() { rpc_options_.pad_frames = true; }
};

TEST_F(PaddingServerTest, AServerThatPadsTellsItsEdges) {
  TestEdge edge(address());
  const LinkBytes bytes = bytes_of_answer(edge);
  EXPECT_EQ(bytes.payload_down % kPaddedBytes, 0u);
  EXPECT_GE(bytes.messages_up, passes_ * kPaddedMessagesPerPass);
  // All but Open, which was sent before the edge knew of padding.
  EXPECT_GE(bytes.payload_up, (bytes.messages_up - 1) * kPaddedBytes);
}

}  // namespace
}  // namespace outrider
