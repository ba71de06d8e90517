// SPDX-License-Identifier: Apache-2.0
#include "proto/frame_padding.h"

#include <gtest/gtest.h>

#include "proto/codec.h"

namespace outrider {
namespace {

std::string verdict_bytes(std::size_t tokens) {
  Verdict verdict;
  verdict.tokens.assign(tokens, 7);
  return serialize(ServerMessage(verdict));
}

// Includes frame borders: there the padding's own bytes begin another frame.
TEST(FramePadding, EveryLengthBecomesAWholeFrameThatReadsTheSame) {
  for (std::size_t tokens = 1; tokens < 2 * kPaddedBytes; ++tokens) {
    std::string bytes = verdict_bytes(tokens);
    const std::size_t unpadded = bytes.size();
    pad_frame(bytes);
    ASSERT_EQ(bytes.size() % kPaddedBytes, 0u);
    ASSERT_LT(bytes.size() - unpadded, kPaddedBytes + 3);
    EXPECT_FALSE(is_filler(bytes));
    const Result<ServerMessage> read = parse_server_message(bytes);
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_EQ(std::get<Verdict>(*read).tokens.size(), tokens);
  }
}

TEST(FramePadding, AnEdgesMessageReadsTheSame) {
  std::string bytes = serialize(EdgeMessage{41, 7, Grow{.first_id = 3, .nodes = {{5, 0, 9}}}});
  pad_frame(bytes);
  EXPECT_EQ(bytes.size(), kPaddedBytes);
  const Result<EdgeMessage> read = parse_edge_message(bytes);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->acked_position, 41);
  EXPECT_EQ(std::get<Grow>(read->body).nodes.size(), 1u);
}

TEST(FramePadding, AFillerIsNoMessage) {
  std::string filler;
  pad_frame(filler);
  EXPECT_EQ(filler.size(), kPaddedBytes);
  EXPECT_TRUE(is_filler(filler));
  EXPECT_FALSE(is_filler(""));
  EXPECT_FALSE(is_filler(verdict_bytes(1)));
}

}  // namespace
}  // namespace outrider
