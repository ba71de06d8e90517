// A real server and real sockets. SPDX-License-Identifier: Apache-2.0
#include "common/http/server.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "tests/unit/common/http/http_client.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class HttpServerTest : public testing::Test {
 protected:
  void start(HttpServerOptions options = {}) {
    options.listen = {"127.0.0.1", 0};
    auto server = HttpServer::start(
        options, [this](const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
          if (request.path == "/later") {
            const std::lock_guard lock(mu_);
            waiting_.push_back(exchange);
            changed_.notify_all();
            return;
          }
          exchange->respond({.body = request.method + " " + request.path + " " + request.body +
                                     " " + request.header("x-name") + " " + request.peer});
        });
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

  std::mutex mu_;
  std::condition_variable changed_;
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
  EXPECT_THAT(http_get(address(), "/health"), HasSubstr("200 OK"));
  for (auto& stream : streams) {
    EXPECT_TRUE(stream->write("last"));
    stream->end();
  }
  for (HttpClient& client : clients) EXPECT_THAT(client.read_all(), HasSubstr("last"));
}

TEST_F(HttpServerTest, SeesThatAClientHasGoneThoughNothingIsWritten) {
  start();
  HttpClient client(address());
  client.get("/later");
  const std::shared_ptr<HttpExchange> exchange = next_waiting();
  ASSERT_NE(exchange, nullptr);
  client.close();
  for (int i = 0; i < 2000 && !exchange->client_is_gone(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(exchange->client_is_gone());
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
}

TEST_F(HttpServerTest, RefusesBodiesThatAreTooLargeAndSurvivesGarbage) {
  HttpServerOptions options;
  options.max_body_bytes = 100;
  start(options);
  HttpClient client(address());
  client.post("/b", std::string(101, 'x'));
  EXPECT_THAT(client.read_all(), HasSubstr("HTTP/1.1 413"));
  HttpClient strange(address());
  strange.send("\x16\x03\x01 no HTTP \xff\r\n\r\n");
  strange.read_all();
  HttpClient wide(address());
  wide.get("/" + std::string(100'000, 'a'));
  wide.read_all();
  EXPECT_THAT(http_get(address(), "/a"), HasSubstr("200 OK"));
}

TEST_F(HttpServerTest, EndsWhatWaitsWhenItEnds) {
  start();
  HttpClient client(address());
  client.get("/later");
  const std::shared_ptr<HttpExchange> exchange = next_waiting();
  ASSERT_NE(exchange, nullptr);
  HttpClient stream(address());
  stream.get("/later");
  const std::shared_ptr<HttpExchange> streamed = next_waiting();
  ASSERT_NE(streamed, nullptr);
  streamed->begin({.body = "begun"});
  stream.read_until("begun");
  server_.reset();
  EXPECT_EQ(client.read_all(), "");
  stream.read_all();
  EXPECT_FALSE(streamed->write("late"));
  exchange->respond({.body = "late"});
  EXPECT_TRUE(exchange->client_is_gone());
}

TEST_F(HttpServerTest, ATakenPortIsNamedWithItsRemedy) {
  start();
  const auto second = HttpServer::start({.listen = address()}, [](const auto&, const auto&) {});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(),
              AllOf(HasSubstr(address().to_string()), HasSubstr("already in use")));
}

}  // namespace
}  // namespace outrider
