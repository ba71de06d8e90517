// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/send_queue.h"

#include <gtest/gtest.h>

#include "proto/codec.h"
#include "proto/frame_padding.h"

namespace outrider {
namespace {

ServerMessage verdict(std::uint32_t pass) {
  return Verdict{pass, 0, {1}, 1, {}};
}
ServerMessage report(std::uint32_t pass) {
  return ExitReport{pass, 0, 0, 1, 9, 1};
}

std::vector<std::string> drain(SendQueue& queue) {
  std::vector<std::string> sent;
  while (std::optional<std::string> bytes = queue.pop()) sent.push_back(*bytes);
  return sent;
}

TEST(SendQueue, KeepsOrder) {
  SendQueue queue(8);
  ASSERT_TRUE(queue.push(Started{1, 5, 0, {}}));
  ASSERT_TRUE(queue.push(report(1)));
  EXPECT_EQ(drain(queue), (std::vector<std::string>{serialize(ServerMessage(Started{1, 5, 0, {}})),
                                                    serialize(report(1))}));
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueue, AVerdictOvertakesTheReportsOfItsPass) {
  SendQueue queue(8);
  ASSERT_TRUE(queue.push(report(1)));
  ASSERT_TRUE(queue.push(report(1)));
  ASSERT_TRUE(queue.push(verdict(1)));
  EXPECT_EQ(drain(queue), std::vector<std::string>{serialize(verdict(1))});
}

TEST(SendQueue, AFullQueueDropsReportsFirstThenGivesUp) {
  SendQueue queue(2);
  ASSERT_TRUE(queue.push(Started{1, 5, 0, {}}));
  ASSERT_TRUE(queue.push(report(1)));
  ASSERT_TRUE(queue.push(report(1)));  // dropped, and nothing else
  EXPECT_EQ(queue.size(), 2u);
  ASSERT_TRUE(queue.push(Progress{1, 2}));  // takes the report's place
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_FALSE(queue.push(verdict(1)));
}

Opened opened_with_exits(std::size_t exits) {
  Opened opened;
  opened.exits.assign(exits, 1);
  return opened;
}

// The sizes that an observer of the wire sees of a pass with so many reports.
std::vector<std::size_t> sizes_of_pass(SendQueue& queue, int reports) {
  EXPECT_TRUE(queue.push(Started{1, 5, 0, {}}));
  for (int i = 0; i < reports; ++i) EXPECT_TRUE(queue.push(report(1)));
  EXPECT_TRUE(queue.push(Verdict{1, 0, std::vector<TokenId>(1 + reports, 9), 1, {}}));
  std::vector<std::size_t> sizes;
  for (const std::string& bytes : drain(queue)) sizes.push_back(bytes.size());
  return sizes;
}

TEST(SendQueue, PaddedPassesLookAlike) {
  SendQueue queue(8);
  queue.pad();
  ASSERT_TRUE(queue.push(opened_with_exits(3)));
  const std::vector<std::string> greeting = drain(queue);
  ASSERT_EQ(greeting.size(), 1u);
  EXPECT_EQ(greeting[0].size() % kPaddedBytes, 0u);
  EXPECT_TRUE(std::get<Opened>(*parse_server_message(greeting[0])).pad_frames);
  const std::vector<std::size_t> expected(5, kPaddedBytes);
  EXPECT_EQ(sizes_of_pass(queue, 0), expected);
  EXPECT_EQ(sizes_of_pass(queue, 1), expected);
  EXPECT_EQ(sizes_of_pass(queue, 3), expected);
}

}  // namespace
}  // namespace outrider
