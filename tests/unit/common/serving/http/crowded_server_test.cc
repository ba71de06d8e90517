// Slow, large and many requests: what they may take of a server, and that others are answered
// meanwhile. A real server and real sockets. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

#include "tests/support/eventually.h"
#include "tests/unit/common/serving/http/http_client.h"
#include "tests/unit/common/serving/http/server_fixture.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using CrowdedHttpServerTest = HttpServerTest;

// The time of a health request.
std::chrono::milliseconds time_to_answer(const Address& address) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(http_get(address, "/alive"), HasSubstr("200 OK"));
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               begin);
}

// The memory of this process, which holds the server and its clients.
std::size_t resident_bytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(CrowdedHttpServerTest, RequestsThatAreHalfSentKeepNobodyOut) {
  HttpServerOptions options;
  options.bounds.requests = options.bounds.requests_per_network = 8;
  start(options);
  std::deque<HttpClient> unauthenticated;
  for (int i = 0; i < 200; ++i) {
    unauthenticated.emplace_back(address()).send("GET /a HTTP/1.1\r\nHost: local");
    if (i % 10 != 0) continue;
    EXPECT_LT(time_to_answer(address()), std::chrono::seconds(1)) << i;
  }
  EXPECT_THAT(http_get(address(), "/a"), HasSubstr("200 OK")) << "who asks at once has a place";
  EXPECT_EQ(unauthenticated.front().read_all(), "") << "who has been there longest has left";
}

TEST_F(CrowdedHttpServerTest, ASlowRequestIsAnsweredWhileThereIsRoom) {
  start();
  HttpClient slow(address());
  for (const char c : std::string("POST /b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                  "Content-Length: 4\r\n\r\nslow")) {
    slow.send(std::string(1, c));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_THAT(slow.read_all(), AllOf(HasSubstr("200 OK"), HasSubstr("POST /b slow")));
}

TEST_F(CrowdedHttpServerTest, ARequestKeepsItsPlaceUntilItIsAnswered) {
  HttpServerOptions options;
  options.bounds.requests = 4;  // of which half are left to others
  options.bounds.requests_per_network = 4;
  start(options);
  std::deque<HttpClient> clients;
  std::deque<std::shared_ptr<HttpExchange>> exchanges;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back(address()).get("/later");
    exchanges.push_back(next_waiting());
    ASSERT_NE(exchanges.back(), nullptr);
  }
  EXPECT_THAT(http_get(address(), "/a"),
              AllOf(HasSubstr("HTTP/1.1 429"), HasSubstr("Retry-After: ")));
  std::deque<HttpClient> unauthenticated;
  for (int i = 0; i < 100; ++i) unauthenticated.emplace_back(address()).send("GET /a");
  EXPECT_LT(time_to_answer(address()), std::chrono::seconds(1));
  for (int i = 0; i < 2; ++i) {
    exchanges[static_cast<std::size_t>(i)]->respond({.body = "answered"});
    EXPECT_THAT(clients[static_cast<std::size_t>(i)].read_all(), HasSubstr("answered"));
  }
  EXPECT_THAT(http_get(address(), "/a"), HasSubstr("200 OK"));
}

TEST_F(CrowdedHttpServerTest, UnfinishedBodiesHoldLittleMemory) {
#ifdef OUTRIDER_SANITIZED
  GTEST_SKIP() << "a sanitizer keeps freed memory";
#endif
  start();
  const std::string part(std::size_t{1} << 20, 'x');
  const auto unfinished = [&](const char* path, int count) {
    const std::size_t before = resident_bytes();
    std::deque<HttpClient> clients;
    for (int i = 0; i < count; ++i) {
      HttpClient& client = clients.emplace_back(address());
      client.send("POST " + std::string(path) +
                  " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n");
      client.send(part.substr(1));
    }
    EXPECT_LT(time_to_answer(address()), std::chrono::seconds(1));
    return (resident_bytes() - std::min(before, resident_bytes())) >> 20;
  };
  EXPECT_LT(unfinished("/none", 60), 8u) << "MiB";
  EXPECT_LT(unfinished("/locked", 60), 8u) << "MiB";
  EXPECT_LT(unfinished("/b", 60), 24u) << "MiB";
  HttpClient whole(address());
  whole.post("/b", part);
  EXPECT_THAT(whole.read_all(), HasSubstr("200 OK")) << "those before had to leave for it";
}

TEST_F(CrowdedHttpServerTest, ARefusedBodyIsReadToItsEndSoThatTheAnswerArrives) {
  start();
  const std::string body(std::size_t{3} << 20, 'x');
  for (const auto& [path, code] : {std::pair("/none", "404"), {"/locked", "401"}, {"/b", "413"}}) {
    HttpClient client(address());
    client.post(path, body);
    EXPECT_THAT(client.read_all(), HasSubstr("HTTP/1.1 " + std::string(code)));
  }
  HttpClient careful(address());
  careful.send(
      "POST /locked HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 3000000\r\n\r\n");
  EXPECT_THAT(careful.read_until("\r\n"), HasSubstr("HTTP/1.1 401")) << "before it sends the body";
}

TEST_F(CrowdedHttpServerTest, ASlowHandlerKeepsNobodyWaiting) {
  start();
  HttpClient slow(address());
  slow.post("/slow", "body");
  for (int i = 0; i < 10; ++i) EXPECT_LT(time_to_answer(address()), std::chrono::seconds(1));
  EXPECT_THAT(http_get(address(), "/a"), HasSubstr("200 OK"));
  HttpClient other(address());
  other.post("/locked", "body", "Authorization: Bearer key\r\n");
  EXPECT_THAT(other.read_all(), HasSubstr("POST /locked body"));
  HttpClient streamed(address());
  streamed.get("/later");
  const std::shared_ptr<HttpExchange> exchange = next_waiting();
  ASSERT_NE(exchange, nullptr);
  exchange->begin({.body = "streamed"});
  exchange->end();
  EXPECT_THAT(streamed.read_all(), HasSubstr("streamed"));
  let_slow_ones_go_on();
  EXPECT_THAT(slow.read_all(), HasSubstr("slowly body"));
}

TEST_F(CrowdedHttpServerTest, WhatWaitsToBeReadIsBounded) {
  HttpServerOptions options;
  options.work = {.bytes = 6 * WorkQueue::kMinBytes, .bytes_per_group = 3 * WorkQueue::kMinBytes};
  start(options);
  std::deque<HttpClient> clients;
  const auto refused = [&] {
    return std::ranges::count_if(clients, [](const HttpClient& one) { return one.has_come(); });
  };
  for (int i = 0; i < 4; ++i) clients.emplace_back(address(), "127.0.0.2").post("/slow", "body");
  ASSERT_TRUE(eventually([&] { return refused() == 1; })) << "the share of an address is full";
  for (int i = 0; i < 4; ++i) clients.emplace_back(address(), "127.0.0.3").post("/slow", "body");
  ASSERT_TRUE(eventually([&] { return refused() == 2; }));
  HttpClient newcomer(address(), "127.0.0.4");
  newcomer.post("/slow", "new");
  ASSERT_TRUE(eventually([&] { return refused() == 3; })) << "all is full: another gives way";
  let_slow_ones_go_on();
  EXPECT_THAT(newcomer.read_all(), HasSubstr("slowly new"));
  int answered = 0;
  for (HttpClient& client : clients) {
    const std::string& answer = client.read_all();
    const bool is_answered = answer.find("slowly body") != std::string::npos;
    EXPECT_TRUE(is_answered || answer.find("HTTP/1.1 429") != std::string::npos) << answer;
    answered += is_answered ? 1 : 0;
  }
  EXPECT_EQ(answered, 5);
}

TEST_F(CrowdedHttpServerTest, AShortRequestDoesNotWaitForLongOnes) {
  start();
  std::deque<HttpClient> clients;
  const std::string long_body(WorkQueue::kLongBytes + 1, 'x');
  for (const char* from : {"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.1"}) {
    clients.emplace_back(address(), from).post("/slow", "wait " + long_body);
  }
  ASSERT_TRUE(eventually([&] { return num_waiting() >= 2; })) << "all threads of long ones";
  for (const char* from : {"127.0.0.1", "127.0.0.2"}) {
    HttpClient short_one(address(), from);
    short_one.post("/slow", "go");
    EXPECT_THAT(short_one.read_all(), HasSubstr("slowly go"));
  }
  let_slow_ones_go_on();
  for (HttpClient& client : clients) EXPECT_THAT(client.read_all(), HasSubstr("slowly wait"));
}

// However many requests of one address wait for the end of something.
TEST_F(CrowdedHttpServerTest, NoAddressHasAllThreads) {
  start();
  std::deque<HttpClient> clients;
  for (int i = 0; i < 4; ++i) clients.emplace_back(address(), "127.0.0.2").post("/slow", "wait");
  ASSERT_TRUE(eventually([&] { return num_waiting() == 1; }));
  HttpClient other(address(), "127.0.0.3");
  other.post("/slow", "go");
  EXPECT_THAT(other.read_all(), HasSubstr("slowly go"));
  let_slow_ones_go_on();
  for (HttpClient& client : clients) EXPECT_THAT(client.read_all(), HasSubstr("slowly wait"));
}

}  // namespace
}  // namespace outrider
