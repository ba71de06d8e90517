// Replies and event streams, cut anywhere, and those that are none.
// SPDX-License-Identifier: Apache-2.0
#include "bench/load/http_client.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kChunked[] =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n6;x=1\r\n "
    "world\r\n0\r\n\r\n";

TEST(HttpReplyReaderTest, AChunkedReplyIsTheSameHoweverItIsCut) {
  const std::string whole = kChunked;
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    HttpReplyReader reply;
    ASSERT_TRUE(reply.take(whole.substr(0, cut)).ok()) << cut;
    EXPECT_EQ(reply.may_end(), cut == whole.size()) << cut;
    ASSERT_TRUE(reply.take(whole.substr(cut)).ok()) << cut;
    EXPECT_EQ(reply.status(), 200);
    EXPECT_EQ(reply.take_body(), "hello world");
    EXPECT_TRUE(reply.done());
  }
}

TEST(HttpReplyReaderTest, ABodyEndsWithItsLengthOrWithTheConnection) {
  HttpReplyReader counted;
  ASSERT_TRUE(counted.take("HTTP/1.1 404 Not Found\r\ncontent-length: 3\r\n\r\nabcdef").ok());
  EXPECT_EQ(counted.status(), 404);
  EXPECT_EQ(counted.take_body(), "abc");
  EXPECT_TRUE(counted.done());
  HttpReplyReader open;
  ASSERT_TRUE(open.take("HTTP/1.0 200 OK\n\nabc").ok());
  EXPECT_FALSE(open.done());
  EXPECT_TRUE(open.may_end());
  HttpReplyReader empty;
  ASSERT_TRUE(empty.take("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok());
  EXPECT_TRUE(empty.done());
}

TEST(HttpReplyReaderTest, WhatIsNoReplyIsRefused) {
  for (const std::string bad :
       {"SSH-2.0-OpenSSH\r\n", "HTTP/1.1 abc\r\n", "HTTP/1.1 999 x\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"}) {
    HttpReplyReader reply;
    EXPECT_EQ(reply.take(bad).code(), StatusCode::kDataLoss) << bad;
  }
  HttpReplyReader endless;
  EXPECT_EQ(endless.take("HTTP/1.1 200 OK\r\nx: " + std::string(70'000, 'x')).code(),
            StatusCode::kResourceExhausted);
}

TEST(EventReaderTest, EventsAreTheSameHoweverTheyAreCut) {
  const std::string whole = ": still here\n\ndata: {\"a\":1}\r\n\r\ndata: [DONE]\n\n";
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    EventReader events;
    std::vector<std::string> data;
    const auto keep = [&](std::string_view event) -> Status {
      data.emplace_back(event);
      return {};
    };
    ASSERT_TRUE(events.take(whole.substr(0, cut), keep).ok());
    ASSERT_TRUE(events.take(whole.substr(cut), keep).ok());
    EXPECT_THAT(data, ElementsAre("{\"a\":1}", "[DONE]")) << cut;
  }
  EventReader events;
  const auto fail = [](std::string_view) { return data_loss("bad event"); };
  EXPECT_EQ(events.take("data: x\n\n", fail).message(), "bad event");
  EventReader endless;
  EXPECT_EQ(endless.take(std::string((1 << 20) + 1, 'x'), fail).code(),
            StatusCode::kResourceExhausted);
}

TEST(HttpUrlTest, IsAPlainHostAndPort) {
  EXPECT_EQ(parse_http_url("http://127.0.0.1:80")->to_string(), "127.0.0.1:80");
  EXPECT_EQ(parse_http_url("http://[::1]:8080/")->port, 8080);
  EXPECT_THAT(parse_http_url("https://a:1").status().message(), HasSubstr("TLS is not spoken"));
  for (const char* bad : {"", "a:1", "http://", "http://a", "http://a:1/v1", "http://a:99999"}) {
    EXPECT_FALSE(parse_http_url(bad).ok()) << bad;
  }
}

TEST(HttpCallTest, AServerThatIsAwayIsNamed) {
  const Address nobody{"127.0.0.1", 1};
  const Result<std::string> page = http_get({.server = nobody, .path = "/"});
  EXPECT_EQ(page.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(page.status().message(), HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace outrider
