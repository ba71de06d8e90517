// Each rule of RFC 9112 that binds a server, as bytes on a real socket: which answers come, and
// which requests the handlers see. A request that must be refused is followed by another one, which
// nobody may see. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <mutex>
#include <string>
#include <vector>

#include "common/serving/http/server.h"
#include "tests/unit/common/serving/http/http_client.h"

namespace outrider {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;
using Codes = std::vector<std::string>;

struct Row {
  const char* section;
  std::string bytes;  // the request LAST follows
  Codes codes;        // of the answers, without LAST's
  bool stays_open = true;
  std::vector<std::string> seen = {};  // by handlers, as "METHOD PATH BODY", without LAST
};

constexpr char kLast[] = "GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const std::string kGet = "GET /a HTTP/1.1\r\nHost: localhost\r\n";
const std::string kPost = "POST /b HTTP/1.1\r\nHost: localhost\r\n";
const std::string kChunked = kPost + "Transfer-Encoding: chunked\r\n\r\n";

Row fine(const char* section, std::string bytes, std::string seen) {
  return {section, std::move(bytes), {"200"}, true, {std::move(seen)}};
}

Row refused(const char* section, std::string bytes, const char* code = "400") {
  return {section, std::move(bytes), {code}, false, {}};
}

std::vector<Row> rows_of_messages() {
  return {
      // 2.2: messages are parsed as octets, line by line.
      fine("2.2", "\r\n" + kGet + "\r\n", "GET /a "),
      fine("2.2", kGet + "X-A: caf\xc3\xa9\r\n\r\n", "GET /a "),
      refused("2.2", "GET /a HTTP/1.1\r\n Host: localhost\r\n\r\n"),
      refused("2.2", "GET /a HTTP/1.1\r\n\tX: y\r\nHost: localhost\r\n\r\n"),
      refused("2.2", kGet + "X: a\rb\r\n\r\n"),
      refused("2.2", "GET /a HTTP/1.1\rHost: localhost\r\n\r\n"),
      refused("2.2", "GET /a HTTP/1.1\nHost: localhost\n\n"),
      refused("2.2", kGet + "X: a\nY: b\r\n\r\n"),
      refused("2.2", "\x16\x03\x01 no HTTP \xff\r\n\r\n"),
      // 2.3: the version.
      refused("2.3", "GET /a HTTP/2.0\r\nHost: localhost\r\n\r\n", "505"),
      refused("2.3", "GET /a HTTP/3.9\r\nHost: localhost\r\n\r\n", "505"),
      refused("2.3", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"),
      refused("2.3", "GET /a http/1.1\r\nHost: localhost\r\n\r\n"),
      refused("2.3", "GET /a HTTP/1.10\r\nHost: localhost\r\n\r\n"),
      refused("2.3", "GET /a HTTP/1.1 \r\nHost: localhost\r\n\r\n"),
      {"2.3", "GET /a HTTP/1.0\r\n\r\n", {"200"}, false, {"GET /a "}},
      // 3: the request line.
      refused("3", "GET  /a HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      refused("3", "GET\t/a HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      refused("3", " GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      refused("3", "GET /a\r\n\r\n"),
      refused("3", "GET /" + std::string(40'000, 'a') + " HTTP/1.1\r\n\r\n", "414"),
      {"3.1", "get /a HTTP/1.1\r\nHost: localhost\r\n\r\n", {"405"}},
      {"3.1", "BREW /a HTTP/1.1\r\nHost: localhost\r\n\r\n", {"405"}},
      refused("3.1", "G(T /a HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      // 3.2: the target and Host.
      refused("3.2", "GET /a HTTP/1.1\r\n\r\n"),
      refused("3.2", kGet + "Host: evil.example\r\n\r\n"),
      refused("3.2", kGet + "Host: localhost\r\n\r\n"),
      refused("3.2", "GET /a HTTP/1.0\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
      refused("3.2", "GET /a HTTP/1.1\r\nHost: local host\r\n\r\n"),
      refused("3.2", "GET /a HTTP/1.1\r\nHost: localhost/x\r\n\r\n"),
      refused("3.2", "GET /a HTTP/1.1\r\nHost: me@localhost\r\n\r\n"),
      refused("3.2", "GET /a HTTP/1.1\r\nHost: localhost:8x\r\n\r\n"),
      fine("3.2", "GET /a HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "GET /a "),
      fine("3.2", "GET /a HTTP/1.1\r\nHost:\r\n\r\n", "GET /a "),
      refused("3.2", "GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      refused("3.2", "GET a HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      refused("3.2", "GET * HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      refused("3.2", "GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      fine("3.2.1", "GET /a%20b?c=/d HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /a b "),
      fine("3.2.2", "GET http://localhost/a HTTP/1.1\r\nHost: evil.example\r\n\r\n", "GET /a "),
      fine("3.2.2", "GET HTTPS://127.0.0.1:8000/a?b HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a "),
      {"3.2.2", "GET http://evil.example/a HTTP/1.1\r\nHost: localhost\r\n\r\n", {"403"}},
      refused("3.2.2", "GET http://localhost/a HTTP/1.1\r\n\r\n"),
      refused("3.2.2", "GET http:///a HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      refused("3.2.2", "GET http://me@localhost/a HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      refused("3.2.2", "GET ftp://localhost/a HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      refused("3.2.3", "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n", "501"),
      {"3.2.4", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", {"204"}},
      {"3.2.4", "OPTIONS /a HTTP/1.1\r\nHost: localhost\r\n\r\n", {"204"}},
  };
}

std::vector<Row> rows_of_fields() {
  std::vector<Row> rows = {
      fine("5", kGet + "X-Empty:\r\nX-Space: \t a \t\r\n\r\n", "GET /a "),
      refused("5.1", kPost + "Content-Length : 5\r\n\r\nhello"),
      refused("5.1", kGet + "X-Tab\t: a\r\n\r\n"),
      refused("5.1", kGet + ": a\r\n\r\n"),
      refused("5.1", kGet + "no colon\r\n\r\n"),
      refused("5.1", kGet + "X(Y: a\r\n\r\n"),
      refused("5.2", kGet + "X: a\r\n b\r\n\r\n"),
      refused("5.2", kGet + "X: a\r\n\tb\r\n\r\n"),
      refused("5.2", kGet + "X:\r\n \r\n\r\n"),
      refused("5.2", kPost + "X: b\r\n Content-Length: 3\r\nContent-Length: 5\r\n\r\nhello"),
      refused("5.5", kGet + "X: a" + std::string(1, '\0') + "b\r\n\r\n"),
      refused("5.5", kGet + "X: a\x7f\r\n\r\n"),
      refused("5.5", kGet + "X: a\x01\r\n\r\n"),
      refused("5", kGet + "X: " + std::string(40'000, 'a') + "\r\n\r\n", "431"),
  };
  std::string many;
  for (int i = 0; i < 4000; ++i) many += "X" + std::to_string(i) + ": a\r\n";
  rows.push_back(refused("5", kGet + many + "\r\n", "431"));
  return rows;
}

std::vector<Row> rows_of_lengths() {
  std::vector<Row> rows = {
      fine("6.3", kPost + "\r\n", "POST /b "),
      fine("6.3", kPost + "Content-Length: 5\r\n\r\nhello", "POST /b hello"),
      fine("6.3", kGet + "Content-Length: 5\r\n\r\nhello", "GET /a hello"),
      fine("6.1", kChunked + "5\r\nhello\r\n0\r\n\r\n", "POST /b hello"),
      fine("6.1", kPost + "Transfer-Encoding: CHUNKED \r\n\r\n5\r\nhello\r\n0\r\n\r\n",
           "POST /b hello"),
      // Two ways to know the end of a body are one too many.
      refused("6.3", kPost + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
      refused("6.3", kPost + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
      refused("6.3", kPost + "Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\nhello"),
      refused("6.3", kPost + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
      refused("6.3", kPost + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
      refused("6.1", "POST /b HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
      refused("6.1", kPost + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"),
      refused("6.1",
              kPost + "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
              "501"),
  };
  for (const char* coding : {"gzip", "identity", "xchunked", "chunked, chunked", "chunked, gzip",
                             "chunked;q=1", "\"chunked\"", "chunke", "", ",", "chunked,"}) {
    rows.push_back(refused("6.1", kPost + "Transfer-Encoding: " + coding + "\r\n\r\n0\r\n\r\n"));
  }
  for (const char* length : {"+5", "-5", "0x5", "5 5", "5,5", "5, 6", "5;", "five", "", "5.0",
                             "99999999999999999999999", "18446744073709551616"}) {
    rows.push_back(refused("6.2", kPost + "Content-Length: " + length + "\r\n\r\nhello"));
  }
  rows.push_back(refused("6.2", kPost + "Content-Length: 18446744073709551615\r\n\r\n", "413"));
  return rows;
}

std::vector<Row> rows_of_chunks() {
  std::vector<Row> rows = {
      fine("7.1", kChunked + "A\r\n0123456789\r\n00b\r\n0123456789a\r\n000\r\n\r\n",
           "POST /b 01234567890123456789a"),
      fine("7.1.1", kChunked + "5;a=b;c=\"d e\";f\r\nhello\r\n0;g\r\n\r\n", "POST /b hello"),
      // A trailer adds nothing to the request: handlers would name X-Name.
      fine("7.1.2", kChunked + "5\r\nhello\r\n0\r\nX-Name: eve\r\n\r\n", "POST /b hello"),
      refused("7.1.2", kChunked + "5\r\nhello\r\n0\r\nContent-Length: 4\r\n\r\n"),
      refused("7.1", kChunked + "5\r\nhelloX\r\n0\r\n\r\n"),
      refused("7.1", kChunked + "5\nhello\n0\n\n\r\n\r\n"),
      refused("7.1", kChunked + "5\r\nhello\n0\r\n\r\n"),
      refused("7.1", kChunked + "5\rhello\r\n0\r\n\r\n"),
      refused("7.1.1", kChunked + "5;a\nb\r\nhello\r\n0\r\n\r\n"),
      refused("7.1.1", kChunked + "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n"),
      refused("7.1.1", kChunked + "5;\r\nhello\r\n0\r\n\r\n"),
      refused("7.1.1", kChunked + "5;a=" + std::string(40'000, 'b') + "\r\nhello\r\n0\r\n\r\n",
              "431"),
      refused("7.1.2", kChunked + "0\r\nX : y\r\n\r\n"),
  };
  for (const char* size : {"+5", "-5", "0x5", " 5", "5 ", "", "g", "FFFFFFFFFFFFFFFFF", "5,5"}) {
    rows.push_back(refused("7.1", kChunked + size + "\r\nhello\r\n0\r\n\r\n"));
  }
  return rows;
}

std::vector<Row> rows_of_connections() {
  return {
      {"9.3", kGet + "Connection: close\r\n\r\n", {"200"}, false, {"GET /a "}},
      {"9.3", "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", {"200"}, true, {"GET /a "}},
      {"9.3.2",
       kGet + "\r\n" + kPost + "Content-Length: 1\r\n\r\nx" + kGet + "\r\n",
       {"200", "200", "200"},
       true,
       {"GET /a ", "POST /b x", "GET /a "}},
      {"9.3.2", kGet + "\r\n" + kGet + "X : y\r\n\r\n", {"200", "400"}, false, {"GET /a "}},
      {"RFC 9110, 9.3.2",
       "HEAD /a HTTP/1.1\r\nHost: localhost\r\n\r\n",
       {"200"},
       true,
       {"HEAD /a "}},
      refused("RFC 9110, 10.1.1", kPost + "Expect: tea\r\nContent-Length: 5\r\n\r\nhello", "417"),
  };
}

class Rfc9112 : public testing::Test {
 protected:
  void SetUp() override {
    const auto see = [this](const HttpRequest& request) {
      const std::lock_guard lock(mu_);
      seen_.push_back(request.method + " " + request.path + " " + request.body +
                      request.header("x-name"));
      return HttpResponse{.body = "seen"};
    };
    auto server = HttpServer::start({.listen = {"127.0.0.1", 0}},
                                    {page_route("GET", "/*", see), page_route("POST", "/*", see)});
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    server_ = *std::move(server);
  }

  std::string answers_to(const std::string& bytes) {
    HttpClient client(server_->address());
    client.send(bytes);
    return client.read_all();
  }
  std::vector<std::string> take_seen() {
    const std::lock_guard lock(mu_);
    return std::exchange(seen_, {});
  }
  // Each error is in our own form, and says so where the connection ends.
  static void check_form(const std::string& answers, bool stays_open) {
    EXPECT_EQ(answers.find("<html"), std::string::npos) << answers;
    if (!stays_open && answers.find("HTTP/1.1 200") == std::string::npos) {
      EXPECT_THAT(answers, HasSubstr("Content-Type: application/json"));
      EXPECT_THAT(answers, HasSubstr("{\"error\":{\"message\":"));
      EXPECT_THAT(answers, HasSubstr("X-Request-Id: "));
      EXPECT_THAT(answers, HasSubstr("Connection: close"));
    }
  }

  void check(std::vector<Row> rows) {
    for (Row& row : rows) {
      SCOPED_TRACE(std::string(row.section) + ": " + row.bytes.substr(0, 300));
      const std::string answers = answers_to(row.bytes + kLast);
      if (row.stays_open) {
        row.codes.emplace_back("200");
        row.seen.emplace_back("GET /last ");
      }
      Codes codes;
      for (std::size_t at = 0; (at = answers.find("HTTP/1.1 ", at)) != std::string::npos; ++at) {
        const std::string code = answers.substr(at + 9, 3);
        if (code.find_first_not_of("0123456789") == std::string::npos) codes.push_back(code);
      }
      EXPECT_THAT(codes, ElementsAreArray(row.codes)) << answers;
      EXPECT_THAT(take_seen(), ElementsAreArray(row.seen));
      check_form(answers, row.stays_open);
    }
  }

  std::mutex mu_;
  std::vector<std::string> seen_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Rfc9112, Sections2And3TheMessageItsVersionAndItsTarget) {
  check(rows_of_messages());
}

TEST_F(Rfc9112, Section5Fields) {
  check(rows_of_fields());
}

TEST_F(Rfc9112, Section6TheLengthOfABody) {
  check(rows_of_lengths());
}

TEST_F(Rfc9112, Section7Chunks) {
  check(rows_of_chunks());
}

TEST_F(Rfc9112, Section9Connections) {
  check(rows_of_connections());
}

TEST_F(Rfc9112, Section8ARequestThatIsCutOffIsNotAnswered) {
  for (const std::string& bytes :
       {kPost + "Content-Length: 5\r\n\r\nhell", kChunked + "5\r\nhello\r\n", kGet}) {
    HttpClient client(server_->address());
    client.send(bytes);
    client.end_sending();
    EXPECT_EQ(client.read_all(), "") << bytes;
    EXPECT_THAT(take_seen(), testing::IsEmpty());
  }
}

// Bytes arrive as the network cuts them.
TEST_F(Rfc9112, OneByteAtATimeIsTheSameRequest) {
  const std::string all = kChunked + "5;a=b\r\nhello\r\n3\r\n +x\r\n0\r\nX-Name: eve\r\n\r\n" +
                          kPost + "Content-Length: 2\r\n\r\nok" + kLast;
  HttpClient client(server_->address());
  for (const char c : all) client.send(std::string(1, c));
  client.read_all();
  EXPECT_THAT(take_seen(), testing::ElementsAre("POST /b hello +x", "POST /b ok", "GET /last "));
}

TEST_F(Rfc9112, AnAnswerHasADateAndTheBytesThatItStates) {
  const std::string answer = answers_to(kLast);
  EXPECT_THAT(answer, testing::ContainsRegex("Date: [A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} "
                                             "[0-9]{2}:[0-9]{2}:[0-9]{2} GMT"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 4\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\nseen")) << answer;
}

TEST_F(Rfc9112, AClientThatWaitsForContinueIsToldTo) {
  HttpClient client(server_->address());
  client.send(kPost + "Connection: close\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hello");
  EXPECT_THAT(client.read_all(), HasSubstr("HTTP/1.1 200 OK"));
  EXPECT_THAT(take_seen(), testing::ElementsAre("POST /b hello"));
}

}  // namespace
}  // namespace outrider
