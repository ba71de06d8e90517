// A real server and real sockets. SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/server.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/unit/common/serving/http/http_client.h"
#include "tests/unit/common/serving/http/server_fixture.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The bytes that end a complete chunked body.
constexpr char kLastChunk[] = "\r\n0\r\n\r\n";

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
