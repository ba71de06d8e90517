// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/constraint_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace outrider {
namespace {

using testing::ElementsAre;

// Forms that need nothing. The first one holds the queue's thread until release(), so that what is
// added meanwhile waits.
class ConstraintQueueTest : public ::testing::Test {
 protected:
  ConstraintQueueTest() {
    EXPECT_TRUE(queue_
                    .add({}, "first",
                         [this](const Result<AnswerConstraint>&) {
                           held_.set_value();
                           may_go_on_.get_future().wait();
                         })
                    .ok());
    held_.get_future().wait();
  }

  Status add(const std::string& owner) {
    return queue_.add({}, owner, [this, owner](const Result<AnswerConstraint>& compiled) {
      EXPECT_TRUE(compiled.ok());
      order_.push_back(owner);
      if (order_.size() == expected_) all_.set_value();
    });
  }
  std::vector<std::string> order_of(std::size_t expected) {
    expected_ = expected;
    may_go_on_.set_value();
    all_.get_future().wait();
    return order_;
  }

  std::promise<void> held_, may_go_on_, all_;
  std::size_t expected_ = 0;        // written before the queue's thread goes on
  std::vector<std::string> order_;  // by the queue's thread
  ConstraintCompiler compiler_{[] { return GrammarVocabulary({}); }};
  ConstraintQueue queue_{&compiler_};
};

TEST_F(ConstraintQueueTest, OwnersTakeTurns) {
  for (const char* owner : {"a", "a", "a", "b", "c", "b"}) ASSERT_TRUE(add(owner).ok());
  EXPECT_THAT(order_of(6), ElementsAre("a", "b", "c", "a", "b", "a"));
}

TEST_F(ConstraintQueueTest, AnOwnerHasFewWaitingAndAllTogetherTooAreBounded) {
  for (std::size_t i = 0; i < ConstraintQueue::kMaxOfOwner; ++i) EXPECT_TRUE(add("a").ok());
  EXPECT_EQ(add("a").code(), StatusCode::kResourceExhausted);
  std::size_t waiting = ConstraintQueue::kMaxOfOwner;
  for (; waiting < ConstraintQueue::kMaxWaiting; ++waiting) {
    EXPECT_TRUE(add("b" + std::to_string(waiting)).ok());
  }
  EXPECT_EQ(add("c").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(order_of(waiting).size(), waiting);
}

}  // namespace
}  // namespace outrider
