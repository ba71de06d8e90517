// A real server and real sockets. SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/server.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/support/eventually.h"
#include "tests/unit/common/serving/http/http_client.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The bytes that end a complete chunked body.
constexpr char kLastChunk[] = "\r\n0\r\n\r\n";

class HttpServerTest : public testing::Test {
 protected:
  void start(HttpServerOptions options = {}) {
    options.listen = {"127.0.0.1", 0};
    const auto echo = [](const HttpRequest& request) {
      return HttpResponse{.body = request.method + " " + request.path + " " + request.body + " " +
                                  request.header("x-name") + " " + request.peer};
    };
    const auto later = [this](const HttpRequest&, const std::shared_ptr<HttpExchange>& exchange) {
      const std::lock_guard lock(mu_);
      waiting_.push_back(exchange);
      changed_.notify_all();
    };
    const auto slow = [this](const HttpRequest& request,
                             const std::shared_ptr<HttpExchange>& exchange) {
      std::unique_lock lock(mu_);
      ++num_slow_;
      changed_.wait(lock, [&] { return may_go_on_ || request.body == "go"; });
      exchange->respond({.body = "slowly " + request.body});
    };
    HttpRoute alive = page_route("GET", "/alive", echo);
    alive.is_health = true;
    const auto locked = [](HttpRequest& request) {
      return request.bearer_key() == "key" ? Status() : unauthenticated("no key");
    };
    auto server = HttpServer::start(
        options, {page_route("GET", "/a", echo),
                  page_route("POST", "/b", echo),
                  page_route("GET", "/below/*", echo),
                  page_route("POST", "/locked", echo, locked),
                  {.method = "GET", .path = "/later", .handler = later},
                  {.method = "POST", .path = "/slow", .handler = slow, .is_slow = true},
                  alive});
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    server_ = *std::move(server);
  }
  const Address& address() const { return server_->address(); }
  std::shared_ptr<HttpExchange> next_waiting() {
    std::unique_lock lock(mu_);
    changed_.wait_for(lock, std::chrono::seconds(20), [this] { return !waiting_.empty(); });
    if (waiting_.empty()) return nullptr;
    std::shared_ptr<HttpExchange> first = waiting_.front();
    waiting_.pop_front();
    return first;
  }

  void let_slow_ones_go_on() {
    const std::lock_guard lock(mu_);
    may_go_on_ = true;
    changed_.notify_all();
  }

  // Requests that a slow handler has begun.
  int num_waiting() {
    const std::lock_guard lock(mu_);
    return num_slow_;
  }

  std::mutex mu_;
  std::condition_variable changed_;
  bool may_go_on_ = false;
  int num_slow_ = 0;
  std::deque<std::shared_ptr<HttpExchange>> waiting_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersAtOnce) {
  start();
  EXPECT_THAT(http_get(address(), "/a?b=c", "X-Name: Ada\r\n"),
              AllOf(HasSubstr("200 OK"), HasSubstr("GET /a  Ada 127.0.0.1")));
  HttpClient client(address());
  client.post("/b", "body");
  EXPECT_THAT(client.read_all(), HasSubstr("POST /b body"));
}

TEST_F(HttpServerTest, TheRouteDecidesWhoAnswers) {
  start();
  EXPECT_THAT(http_get(address(), "/below/x/y"), HasSubstr("GET /below/x/y"));
  EXPECT_THAT(http_get(address(), "/below/"), HasSubstr("HTTP/1.1 404"));
  EXPECT_THAT(http_get(address(), "/none"),
              AllOf(HasSubstr("HTTP/1.1 404"), HasSubstr("no such page"), HasSubstr("\"error\"")));
  EXPECT_THAT(http_get(address(), "/b"),
              AllOf(HasSubstr("HTTP/1.1 405"), HasSubstr("Allow: POST")));
  HttpClient unauthenticated(address());
  unauthenticated.post("/locked", "body");
  EXPECT_THAT(unauthenticated.read_all(),
              AllOf(HasSubstr("HTTP/1.1 401"), HasSubstr("WWW-Authenticate: Bearer")));
  HttpClient friendly(address());
  friendly.post("/locked", "body", "Authorization: Bearer key\r\n");
  EXPECT_THAT(friendly.read_all(), HasSubstr("POST /locked body"));
}

TEST_F(HttpServerTest, AnswersLaterFromAnotherThread) {
  start();
  HttpClient client(address());
  client.get("/later");
  const std::shared_ptr<HttpExchange> exchange = next_waiting();
  ASSERT_NE(exchange, nullptr);
  EXPECT_FALSE(exchange->client_is_gone());
  exchange->respond({.status = 418, .body = "late"});
  EXPECT_THAT(client.read_all(), AllOf(HasSubstr("HTTP/1.1 418"), HasSubstr("late")));
}

TEST_F(HttpServerTest, StreamsPieceByPiece) {
  start();
  HttpClient client(address());
  client.get("/later");
  const std::shared_ptr<HttpExchange> exchange = next_waiting();
  ASSERT_NE(exchange, nullptr);
  exchange->begin({.body = "one,", .content_type = "text/event-stream"});
  client.read_until("one,");
  EXPECT_TRUE(exchange->write("two,"));
  client.read_until("two,");
  EXPECT_TRUE(exchange->write("three"));
  exchange->end();
  EXPECT_FALSE(exchange->write("four"));
  EXPECT_THAT(client.read_all(), AllOf(HasSubstr("text/event-stream"), HasSubstr("three")));
}

TEST_F(HttpServerTest, AnswersWhileManyStreamsAreOpen) {
  start();
  constexpr std::size_t kStreams = 64;
  std::deque<HttpClient> clients;
  std::deque<std::shared_ptr<HttpExchange>> streams;
  for (std::size_t i = 0; i < kStreams; ++i) {
    clients.emplace_back(address()).get("/later");
    streams.push_back(next_waiting());
    ASSERT_NE(streams.back(), nullptr);
    streams.back()->begin({.body = "first "});
  }
  EXPECT_THAT(http_get(address(), "/a"), HasSubstr("200 OK"));
  for (auto& stream : streams) {
    EXPECT_TRUE(stream->write("last"));
    stream->end();
  }
  for (HttpClient& client : clients) EXPECT_THAT(client.read_all(), HasSubstr("last"));
}

TEST_F(HttpServerTest, ItIsKnownWhenEveryByteOfAnAnswerIsOnItsWay) {
  start();
  EXPECT_TRUE(server_->wait_until_answered(Duration{0}));
  HttpClient client(address());
  client.get("/later");
  const std::shared_ptr<HttpExchange> exchange = next_waiting();
  ASSERT_NE(exchange, nullptr);
  EXPECT_FALSE(server_->wait_until_answered(from_ms(10)));
  exchange->begin({.body = "first"});
  exchange->end();
  EXPECT_TRUE(server_->wait_until_answered(std::chrono::seconds(30)));
  server_.reset();
  EXPECT_THAT(client.read_all(), AllOf(HasSubstr("first"), HasSubstr(kLastChunk)));
}

TEST_F(HttpServerTest, SeesThatAClientHasGoneThoughNothingIsWritten) {
  start();
  HttpClient client(address());
  client.get("/later");
  const std::shared_ptr<HttpExchange> exchange = next_waiting();
  ASSERT_NE(exchange, nullptr);
  client.close();
  EXPECT_TRUE(eventually([&] { return exchange->client_is_gone(); }));
}

TEST_F(HttpServerTest, AClientThatHasSaidAllItWillIsAnswered) {
  start();
  for (const bool streams : {false, true}) {
    HttpClient client(address());
    client.get("/later");
    client.end_sending();
    const std::shared_ptr<HttpExchange> exchange = next_waiting();
    ASSERT_NE(exchange, nullptr);
    if (streams) exchange->begin({.body = "first "}, {": filler ", {}});
    for (int i = 0; i < 20; ++i) {
      EXPECT_FALSE(exchange->client_is_gone());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (streams) {
      EXPECT_TRUE(exchange->write("last"));
      exchange->end();
      EXPECT_THAT(client.read_all(), AllOf(HasSubstr("first "), HasSubstr("last")));
    } else {
      exchange->respond({.body = "whole"});
      EXPECT_THAT(client.read_all(), AllOf(HasSubstr("200 OK"), HasSubstr("whole")));
    }
  }
}

TEST_F(HttpServerTest, SeesThatAStreamsReaderHasGone) {
  start();
  HttpClient client(address());
  client.get("/later");
  const std::shared_ptr<HttpExchange> exchange = next_waiting();
  ASSERT_NE(exchange, nullptr);
  exchange->begin({.body = "first"}, {": filler ", {}});
  client.read_until("first");
  client.close();
  EXPECT_TRUE(eventually([&] { return exchange->client_is_gone(); }));
}

TEST_F(HttpServerTest, OnlyNamesThatAreAllowedLeadHere) {
  HttpServerOptions options;
  options.allowed_hosts = {"robot.example"};
  start(options);
  const auto ask = [&](const std::string& head) {
    HttpClient client(address());
    client.send("GET /a HTTP/1.1\r\nConnection: close\r\n" + head + "\r\n");
    return client.read_all();
  };
  EXPECT_THAT(ask("Host: robot.example\r\n"), HasSubstr("200 OK"));
  EXPECT_THAT(ask("Host: evil.example\r\n"), HasSubstr("HTTP/1.1 403"));
  EXPECT_THAT(ask("Host: evil.example\r\nOrigin: http://evil.example\r\n"),
              HasSubstr("HTTP/1.1 403"));
}

TEST_F(HttpServerTest, AReaderThatDoesNotReadLosesItsStream) {
  start();
  HttpClient client(address());
  client.get("/later");
  const std::shared_ptr<HttpExchange> exchange = next_waiting();
  ASSERT_NE(exchange, nullptr);
  exchange->begin({});
  const std::string block(1 << 20, 'x');
  int written = 0;
  while (written < 100 && exchange->write(block)) ++written;
  EXPECT_LT(written, 100) << "what it is owed is bounded";
  EXPECT_FALSE(exchange->write("late"));
  exchange->end();
  EXPECT_THAT(client.read_all(), Not(HasSubstr(kLastChunk))) << "it does not look complete";
}

TEST_F(HttpServerTest, AnAnswerThatIsCutDoesNotLookComplete) {
  start();
  for (const char* version : {"1.1", "1.0"}) {
    for (const bool aborts : {false, true}) {
      HttpClient client(address());
      client.send("GET /later HTTP/" + std::string(version) + "\r\nHost: localhost\r\n\r\n");
      const std::shared_ptr<HttpExchange> exchange = next_waiting();
      ASSERT_NE(exchange, nullptr);
      exchange->begin({.body = "begun"});
      client.read_until("begun");
      exchange->write("last words");
      aborts ? exchange->abort() : exchange->cut();
      EXPECT_THAT(client.read_all(), Not(HasSubstr(kLastChunk)));
      const bool has_chunks = version == std::string("1.1");
      if (has_chunks && !aborts) {
        EXPECT_THAT(client.read_all(), HasSubstr("last words"));
      } else {
        EXPECT_TRUE(client.was_reset()) << version << ", whose body ends with the connection";
      }
    }
  }
}

TEST_F(HttpServerTest, RefusesBodiesThatAreTooLargeAndSurvivesGarbage) {
  HttpServerOptions options;
  options.max_body_bytes = 100;
  start(options);
  HttpClient client(address());
  client.post("/b", std::string(101, 'x'));
  EXPECT_THAT(client.read_all(), HasSubstr("HTTP/1.1 413"));
  EXPECT_THAT(client.read_all(), HasSubstr("the body exceeds 100 bytes"));
  HttpClient piecewise(address());
  piecewise.send(
      "POST /b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
      "Transfer-Encoding: chunked\r\n\r\n65\r\n" +
      std::string(101, 'x') + "\r\n0\r\n\r\n");
  EXPECT_THAT(piecewise.read_all(), HasSubstr("HTTP/1.1 413"));
  HttpClient strange(address());
  strange.send("\x16\x03\x01 no HTTP \xff\r\n\r\n");
  EXPECT_THAT(strange.read_all(), AllOf(HasSubstr("HTTP/1.1 400"), HasSubstr("\"error\"")));
  HttpClient wide(address());
  wide.get("/" + std::string(100'000, 'a'));
  EXPECT_THAT(wide.read_all(), AllOf(HasSubstr("HTTP/1.1 414"), HasSubstr("\"error\"")));
  EXPECT_THAT(http_get(address(), "/a"), HasSubstr("200 OK"));
}

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

TEST_F(HttpServerTest, RequestsThatAreHalfSentKeepNobodyOut) {
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

TEST_F(HttpServerTest, ASlowRequestIsAnsweredWhileThereIsRoom) {
  start();
  HttpClient slow(address());
  for (const char c : std::string("POST /b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                  "Content-Length: 4\r\n\r\nslow")) {
    slow.send(std::string(1, c));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_THAT(slow.read_all(), AllOf(HasSubstr("200 OK"), HasSubstr("POST /b slow")));
}

TEST_F(HttpServerTest, ARequestKeepsItsPlaceUntilItIsAnswered) {
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

TEST_F(HttpServerTest, UnfinishedBodiesHoldLittleMemory) {
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

TEST_F(HttpServerTest, ARefusedBodyIsReadToItsEndSoThatTheAnswerArrives) {
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

TEST_F(HttpServerTest, ASlowHandlerKeepsNobodyWaiting) {
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

TEST_F(HttpServerTest, WhatWaitsToBeReadIsBounded) {
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

TEST_F(HttpServerTest, AShortRequestDoesNotWaitForLongOnes) {
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
TEST_F(HttpServerTest, NoAddressHasAllThreads) {
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

TEST_F(HttpServerTest, WhatIsNotAnsweredWhenItEndsIsToldSo) {
  start();
  HttpClient client(address());
  client.get("/later");
  const std::shared_ptr<HttpExchange> exchange = next_waiting();
  ASSERT_NE(exchange, nullptr);
  HttpClient stream(address());
  stream.get("/later");
  const std::shared_ptr<HttpExchange> streamed = next_waiting();
  ASSERT_NE(streamed, nullptr);
  streamed->begin({.body = "begun"}, {.filler = {}, .cut = "the server ends"});
  stream.read_until("begun");
  server_.reset();
  EXPECT_THAT(client.read_all(), AllOf(HasSubstr("HTTP/1.1 503"), HasSubstr("Retry-After: "),
                                       HasSubstr("shutting down")));
  EXPECT_THAT(stream.read_all(), AllOf(HasSubstr("the server ends"), Not(HasSubstr(kLastChunk))));
  EXPECT_FALSE(streamed->write("late"));
  exchange->respond({.body = "late"});
  EXPECT_TRUE(exchange->client_is_gone());
}

TEST_F(HttpServerTest, PagesOfOtherOriginsAreAdmittedByName) {
  HttpServerOptions options;
  options.allowed_origins = {"https://App.example", "http://localhost:3000"};
  start(options);
  const auto from = [&](const std::string& origin) {
    return http_get(address(), "/a", "Origin: " + origin + "\r\n");
  };
  EXPECT_THAT(from("https://app.example"),
              AllOf(HasSubstr("200 OK"), HasSubstr("Vary: Origin\r\n"),
                    HasSubstr("Access-Control-Allow-Origin: https://app.example\r\n")));
  EXPECT_THAT(from("http://app.example"),
              AllOf(HasSubstr("HTTP/1.1 403"), HasSubstr("--allowed-origins"),
                    Not(HasSubstr("Access-Control-Allow-Origin"))));
  // The browser asks first, without a key; an error can be read too.
  HttpClient preflight(address());
  preflight.send(
      "OPTIONS /locked HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
      "Origin: http://localhost:3000\r\nAccess-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization,content-type\r\n\r\n");
  EXPECT_THAT(preflight.read_all(),
              AllOf(HasSubstr("HTTP/1.1 204"), HasSubstr("Allow-Methods: POST, OPTIONS"),
                    HasSubstr("Access-Control-Allow-Headers: authorization,content-type"),
                    Not(HasSubstr("Content-Length"))));
  HttpClient refused(address());
  refused.post("/locked", "body", "Origin: http://localhost:3000\r\n");
  EXPECT_THAT(refused.read_all(),
              AllOf(HasSubstr("HTTP/1.1 401"),
                    HasSubstr("Access-Control-Allow-Origin: http://localhost:3000")));
}

TEST_F(HttpServerTest, WithoutAllowedOriginsNoBrowserIsToldThatItMayReadAnswers) {
  HttpServerOptions options;
  options.allowed_hosts = {"*"};
  start(options);
  EXPECT_THAT(http_get(address(), "/a", "Origin: https://app.example\r\n"),
              AllOf(HasSubstr("HTTP/1.1 403"), Not(HasSubstr("Access-Control"))));
  EXPECT_THAT(http_get(address(), "/a"), Not(HasSubstr("Access-Control")));
}

TEST_F(HttpServerTest, WhatIsNoOriginIsRefusedWithTheRemedy) {
  for (const char* origin : {"app.example", "https://", "https://app.example/page", ""}) {
    const auto server =
        HttpServer::start({.listen = {"127.0.0.1", 0}, .allowed_origins = {origin}}, {});
    ASSERT_FALSE(server.ok()) << origin;
    EXPECT_THAT(server.status().message(), HasSubstr("SCHEME://HOST"));
  }
}

TEST_F(HttpServerTest, ATakenPortIsNamedWithItsRemedy) {
  start();
  const auto second = HttpServer::start({.listen = address()}, {});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(),
              AllOf(HasSubstr(address().to_string()), HasSubstr("already in use")));
}

}  // namespace
}  // namespace outrider
