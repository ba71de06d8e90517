// Which connection is evicted, without sockets: shutting down an invalid descriptor does nothing.
// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/connections.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <mutex>
#include <semaphore>
#include <string>
#include <vector>

#include "common/serving/http/work_queue.h"

namespace outrider {
namespace {

using Connection = HttpConnections::Connection;

TimePoint at(int second) {
  return TimePoint{} + std::chrono::seconds(second);
}

TEST(HttpConnections, IdleOnesAreEvictedFirstThenUnauthenticatedBodiesThenAuthenticatedOnes) {
  HttpConnections all({.requests = 0, .requests_per_network = 1000});
  std::deque<std::string> bodies(HttpConnections::kSpare);
  std::vector<Connection*> in;
  for (std::size_t i = 0; i < HttpConnections::kSpare; ++i) {
    in.push_back(&all.enter(-1, "a", at(static_cast<int>(i))));
    if (i < 2) all.begin_body(*in[i], &bodies[i], /*known=*/i == 0, at(static_cast<int>(i)));
  }
  for (std::size_t i = 2; i < in.size(); ++i) {  // in the order in which they came
    EXPECT_FALSE(in[i]->leaving);
    all.begin_body(all.enter(-1, "b" + std::to_string(i), at(100)), &bodies[i], false, at(100));
    EXPECT_TRUE(in[i]->leaving) << i;
  }
  EXPECT_FALSE(in[1]->leaving);
  all.enter(-1, "b", at(100));
  EXPECT_TRUE(in[1]->leaving) << "the unauthenticated body before the authenticated one";
  EXPECT_FALSE(in[0]->leaving);
}

TEST(HttpConnections, ANetworkTakesPlacesFromItself) {
  HttpConnections all({.requests = 1000, .requests_per_network = 2});
  Connection& other = all.enter(-1, "other", at(0));
  Connection& first = all.enter(-1, "many", at(1));
  for (std::size_t i = 0; i < HttpConnections::kSparePerNetwork + 1; ++i) {
    all.enter(-1, "many", at(2));
  }
  EXPECT_FALSE(first.leaving);
  all.enter(-1, "many", at(3));
  EXPECT_TRUE(first.leaving);
  EXPECT_FALSE(other.leaving);
  all.leave(first);
  EXPECT_EQ(all.sent_away(), 1u);
}

// A host has a /64 of addresses, and its IPv4 address in more than one form.
TEST(HttpConnections, ANetworkIsBoundedWhateverAddressItTakes) {
  for (const auto& [own, next] : {std::pair("2001:db8:0:7::", "2001:db8:0:8::1"),
                                  std::pair("::ffff:192.0.2.", "192.0.2.2")}) {
    HttpConnections all({.requests = 10, .requests_per_network = 2});
    const auto asks = [&all](const std::string& peer) {
      return all.begin_answer(all.enter(-1, peer, at(0)), at(0)).code();
    };
    EXPECT_EQ(asks(std::string(own) + "1"), StatusCode::kOk);
    EXPECT_EQ(asks(own == std::string("::ffff:192.0.2.") ? "192.0.2.1" : std::string(own) + "2"),
              StatusCode::kOk);
    EXPECT_EQ(asks(std::string(own) + "1"), StatusCode::kResourceExhausted);
    EXPECT_EQ(asks(next), StatusCode::kOk) << "others are not concerned";
  }
}

TEST(HttpConnections, WhatIsAnsweredStaysAndIsBounded) {
  HttpConnections all({.requests = 2, .requests_per_network = 1});
  Connection& a = all.enter(-1, "a", at(0));
  Connection& b = all.enter(-1, "b", at(0));
  EXPECT_EQ(all.begin_answer(a, at(1)), Status());
  EXPECT_EQ(all.begin_answer(all.enter(-1, "a", at(1)), at(1)).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(all.begin_answer(b, at(1)), Status());
  EXPECT_EQ(all.begin_answer(all.enter(-1, "c", at(1)), at(1)).code(),
            StatusCode::kResourceExhausted);
  for (int i = 0; i < 300; ++i) all.enter(-1, "a", at(2));
  EXPECT_FALSE(a.leaving);
  all.end_request(a, at(3));
  EXPECT_EQ(all.begin_answer(all.enter(-1, "a", at(4)), at(4)), Status());
}

TEST(HttpConnections, BodiesLeaveForLaterOnesAndGiveTheirMemoryBack) {
  HttpConnections all({.body_bytes = 100, .body_bytes_per_network = 60});
  std::deque<std::string> bodies(3);
  Connection& a = all.enter(-1, "a", at(0));
  Connection& b = all.enter(-1, "b", at(0));
  Connection& later = all.enter(-1, "a", at(0));
  all.begin_body(a, &bodies[0], false, at(1));
  all.begin_body(b, &bodies[1], false, at(2));
  all.begin_body(later, &bodies[2], false, at(3));
  EXPECT_EQ(all.take_body(a, std::string(50, 'x')), Status());
  EXPECT_EQ(all.take_body(later, std::string(50, 'y')), Status());
  EXPECT_TRUE(a.leaving) << "of its network";
  EXPECT_TRUE(bodies[0].empty());
  EXPECT_EQ(all.take_body(b, std::string(50, 'z')), Status());
  EXPECT_FALSE(later.leaving);
  EXPECT_EQ(all.take_body(b, std::string(11, 'z')).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(bodies[2], std::string(50, 'y'));
}

// Slow senders of many networks hold all memory: what a newcomer sends takes from those that have
// most, and what they send later takes nothing from it.
TEST(HttpConnections, ANewcomersBodyStaysBesideNetworksThatHoldMost) {
  HttpConnections all({.body_bytes = 160, .body_bytes_per_network = 40});
  std::deque<std::string> bodies(10);
  const auto send = [&](const std::string& network, std::size_t bytes) -> Connection& {
    std::string& body = bodies.emplace_back();
    Connection& one = all.enter(-1, network, at(static_cast<int>(bodies.size())));
    all.begin_body(one, &body, false, at(static_cast<int>(bodies.size())));
    EXPECT_EQ(all.take_body(one, std::string(bytes, 'x')), Status());
    return one;
  };
  for (const char* network : {"a", "b", "c", "d"}) {
    for (int i = 0; i < 4; ++i) send(network, 10);
  }
  const Connection& newcomer = send("e", 10);
  for (int i = 0; i < 4; ++i) {
    for (const char* network : {"a", "b", "c", "d"}) send(network, 10);
  }
  EXPECT_FALSE(newcomer.leaving);
}

TEST(HttpConnections, SomeNetworksLeaveAnswersToOthers) {
  HttpConnections all({.requests = 64, .requests_per_network = 16});
  for (const char* network : {"a", "b", "c", "d"}) {
    for (int i = 0; i < 16; ++i) (void)all.begin_answer(all.enter(-1, network, at(0)), at(0));
  }
  EXPECT_EQ(all.begin_answer(all.enter(-1, "e", at(0)), at(0)), Status());
}

TEST(WorkQueue, GroupsTakeTurns) {
  std::mutex mu;
  std::string order;
  std::binary_semaphore begun{0}, go_on{0}, done{0};
  WorkQueue queue({.threads = 1});
  const auto job = [&](char name) {
    return WorkQueue::Job{.run = [&, name] {
      const std::lock_guard lock(mu);
      order += name;
      if (order.size() == 6) done.release();
    }};
  };
  EXPECT_EQ(queue.push("x", {.run =
                                 [&] {
                                   begun.release();
                                   go_on.acquire();
                                 }}),
            Status());
  begun.acquire();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.push("a", job('a')), Status());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(queue.push("b", job('b')), Status());
  go_on.release();
  done.acquire();
  const std::lock_guard lock(mu);
  EXPECT_EQ(order, "ababaa");
}

TEST(WorkQueue, WhereAllIsFullTheGroupThatHoldsMostGivesWayAsFarAsIsFair) {
  constexpr std::size_t kUnit = WorkQueue::kMinBytes;
  std::binary_semaphore begun{0}, go_on{0};
  std::map<std::string, int> refused;
  {
    WorkQueue queue({.bytes = 9 * kUnit, .bytes_per_group = 6 * kUnit, .threads = 1});
    const auto push = [&](const std::string& group) {
      return queue
          .push(group, {.run = [] {},
                        .refuse =
                            [&refused, group](const Status& why) {
                              EXPECT_EQ(why.code(), StatusCode::kResourceExhausted);
                              ++refused[group];
                            }})
          .ok();
    };
    EXPECT_TRUE(queue
                    .push("x", {.run =
                                    [&] {
                                      begun.release();
                                      go_on.acquire();
                                    }})
                    .ok());
    begun.acquire();
    for (int i = 0; i < 6; ++i) EXPECT_TRUE(push("a"));
    EXPECT_FALSE(push("a")) << "its share";
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(push("b"));
    EXPECT_TRUE(refused.empty());
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(push("c"));
    EXPECT_EQ(refused["a"], 2);
    EXPECT_TRUE(push("b"));
    EXPECT_EQ(refused["a"], 3) << "three each for a and b, two for c";
    EXPECT_FALSE(push("b")) << "nobody holds more";
    EXPECT_EQ(refused["a"] + refused["b"] + refused["c"], 3);
    go_on.release();
  }
}

}  // namespace
}  // namespace outrider
