// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/send_queue.h"

#include <gtest/gtest.h>

#include "proto/codec.h"

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

}  // namespace
}  // namespace outrider
