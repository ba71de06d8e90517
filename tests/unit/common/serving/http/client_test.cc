// HttpCaller against a real server: whole and streamed replies, and those that end early.
// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/client.h"

#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/common/serving/http/server_fixture.h"

namespace outrider {
namespace {

using testing::HasSubstr;

constexpr Duration kPatience = std::chrono::seconds(20);

class HttpCallerTest : public HttpServerTest {
 protected:
  // Streams `pieces` to the next client of /later, each when the one before has arrived.
  std::jthread stream(std::vector<std::string> pieces, bool ends) {
    return std::jthread([this, pieces = std::move(pieces), ends] {
      const std::shared_ptr<HttpExchange> exchange = next_waiting();
      if (exchange == nullptr) return;
      exchange->begin({});
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        exchange->write(pieces[i]);
        std::unique_lock lock(mu_);
        changed_.wait_for(lock, kPatience, [&] { return arrived_ > i; });
      }
      if (ends) {
        exchange->end();
      } else {
        exchange->abort();
      }
    });
  }

  Status take(std::string_view piece) {
    const std::lock_guard lock(mu_);
    came_ += piece;
    ++arrived_;
    changed_.notify_all();
    return {};
  }

  std::string came_;
  std::size_t arrived_ = 0;
};

TEST_F(HttpCallerTest, AStreamedBodyComesPieceByPiece) {
  start();
  HttpCaller caller({.server = address()});
  const std::jthread streaming = stream({"one ", "two ", std::string(100'000, 'x')}, true);
  const Result<HttpReply> reply =
      caller.call({.path = "/later",
                   .timeout = kPatience,
                   .on_body = [this](std::string_view piece) { return take(piece); }},
                  {});
  ASSERT_TRUE(reply.ok()) << reply.status().to_string();
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "");
  EXPECT_EQ(came_, "one two " + std::string(100'000, 'x'));
  EXPECT_GE(arrived_, 3);
}

TEST_F(HttpCallerTest, AnErrorOfItsReaderEndsTheCall) {
  start();
  HttpCaller caller({.server = address()});
  const std::jthread streaming = stream({"one "}, true);
  const Result<HttpReply> reply = caller.call({.path = "/later",
                                               .timeout = kPatience,
                                               .on_body =
                                                   [this](std::string_view piece) {
                                                     EXPECT_TRUE(take(piece).ok());
                                                     return data_loss("unreadable");
                                                   }},
                                              {});
  EXPECT_EQ(reply.status().message(), "unreadable");
}

TEST_F(HttpCallerTest, AStreamThatBreaksOffIsAnError) {
  start();
  HttpCaller caller({.server = address()});
  const std::jthread streaming = stream({"one "}, false);
  const Result<HttpReply> reply =
      caller.call({.path = "/later",
                   .timeout = kPatience,
                   .on_body = [this](std::string_view piece) { return take(piece); }},
                  {});
  EXPECT_EQ(reply.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(came_, "one ");
}

TEST_F(HttpCallerTest, ARefusalIsWholeAndTheConnectionIsUsedAgain) {
  start();
  HttpCaller caller({.server = address()});
  const auto no_piece = [](std::string_view) { return internal_error("no body was expected"); };
  const Result<HttpReply> refused =
      caller.call({.path = "/none", .timeout = kPatience, .on_body = no_piece}, {});
  ASSERT_TRUE(refused.ok()) << refused.status().to_string();
  EXPECT_EQ(refused->status, 404);
  EXPECT_THAT(refused->body, HasSubstr("error"));
  const Result<HttpReply> whole = caller.call({.path = "/a", .timeout = kPatience}, {});
  ASSERT_TRUE(whole.ok()) << whole.status().to_string();
  EXPECT_THAT(whole->body, HasSubstr("GET /a"));
}

TEST_F(HttpCallerTest, SilenceIsADeadline) {
  start();
  HttpCaller caller({.server = address()});
  const Result<HttpReply> reply =  // nothing answers /later
      caller.call({.path = "/later", .timeout = std::chrono::milliseconds(50)}, {});
  EXPECT_EQ(reply.status().code(), StatusCode::kDeadlineExceeded);
}

TEST_F(HttpCallerTest, AServerThatIsAwayIsUnavailable) {
  HttpCaller caller({.server = {"127.0.0.1", 1}});
  const Result<HttpReply> reply = caller.call({.path = "/", .timeout = kPatience}, {});
  EXPECT_EQ(reply.status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace outrider
