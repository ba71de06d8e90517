// The errors of the remote verifier for servers that are away, strange or broken. (With a real
// server: tests/unit/cloud_server/rpc.) SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/remote.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <future>
#include <thread>

#include "edge_client/verifiers/remote_probe.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Listens on a free port of the loopback; the kernel takes connections whether or not we accept.
class Listener final {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = {"127.0.0.1", ntohs(address.sin_port)};
  }
  ~Listener() { close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const Address& address() const { return address_; }

  // Accepts one connection, says this once the peer has spoken, and waits until the peer goes.
  void greet_once(const std::string& greeting) {
    const int peer = accept(fd_, nullptr, nullptr);
    std::array<char, 4096> heard;
    EXPECT_GT(recv(peer, heard.data(), heard.size(), 0), 0);
    EXPECT_EQ(::send(peer, greeting.data(), greeting.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(greeting.size()));
    while (recv(peer, heard.data(), heard.size(), 0) > 0) {
    }
    ::close(peer);
  }

  // Accepts one connection, says this once the peer has spoken, and closes.
  void serve_once(const std::string& answer) {
    const int peer = accept(fd_, nullptr, nullptr);
    std::array<char, 4096> heard;
    EXPECT_GT(recv(peer, heard.data(), heard.size(), 0), 0);
    EXPECT_EQ(::send(peer, answer.data(), answer.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(answer.size()));
    shutdown(peer, SHUT_WR);
    while (recv(peer, heard.data(), heard.size(), 0) > 0) {
    }
    ::close(peer);
  }

  // Accepts one connection of HTTP/2, and answers its first request with status 502 and this page.
  void serve_page_once(const std::string& page) {
    const int peer = accept(fd_, nullptr, nullptr);
    const auto frame = [](char type, char flags, const std::string& payload) {
      return std::string("\0", 1) + static_cast<char>(payload.size() / 256) +
             static_cast<char>(payload.size() % 256) + type + flags + std::string("\0\0\0", 3) +
             (type == kSettings ? '\0' : '\1') + payload;
    };
    const auto say = [&](const std::string& bytes) {
      EXPECT_EQ(::send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(bytes.size()));
    };
    say(frame(kSettings, 0, ""));
    std::string heard;
    std::array<char, 4096> part;
    while (!has_headers(heard)) {
      const ssize_t size = recv(peer, part.data(), part.size(), 0);
      if (size <= 0) break;
      heard.append(part.data(), static_cast<std::size_t>(size));
    }
    // HPACK's static fields :status (8) and content-type (31), with values of their own.
    const std::string headers = std::string("\x08\x03") + "502" + "\x0f\x10\x09" + "text/html";
    say(frame(kHeaders, 4, headers) + frame(kData, 1, page));
    while (recv(peer, part.data(), part.size(), 0) > 0) {
    }
    ::close(peer);
  }

  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  static constexpr char kData = 0, kHeaders = 1, kSettings = 4;

  // Whether a request's headers are among the frames behind the client's preface.
  static bool has_headers(const std::string& heard) {
    constexpr std::size_t kPreface = 24, kHead = 9;
    for (std::size_t at = kPreface; at + kHead <= heard.size();) {
      if (heard[at + 3] == kHeaders) return true;
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(heard[at + i]); };
      at += kHead + (std::size_t{byte(0)} << 16 | std::size_t{byte(1)} << 8 | byte(2));
    }
    return false;
  }

  int fd_;
  Address address_;
};

// Opens a stream and returns how it ended.
Status end_of_stream(RemoteVerifier& verifier) {
  std::promise<Status> ended;
  verifier.start(7, [&](const FromVerifier& from) {
    EXPECT_EQ(from.epoch, 7u);
    if (const auto* end = std::get_if<StreamEnded>(&from.event)) ended.set_value(end->status);
  });
  verifier.send({0, 0, Open{}});
  std::future<Status> result = ended.get_future();
  if (result.wait_for(std::chrono::seconds(30)) != std::future_status::ready) {
    ADD_FAILURE() << "the stream did not end";
    verifier.stop();
    return {};
  }
  return result.get();
}

TEST(Remote, ARefusedConnectionNamesTheAddress) {
  Listener listener;
  listener.close();
  RemoteVerifier verifier({listener.address()});
  const Status status = end_of_stream(verifier);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("cannot reach a server at " + listener.address().to_string()),
                    HasSubstr("refused")));
}

TEST(Remote, AnUnknownNameIsToldAsSuch) {
  RemoteVerifier verifier({{"no-such-host.invalid", 8001}, std::chrono::seconds(2)});
  const Status status = end_of_stream(verifier);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("no-such-host.invalid:8001"), HasSubstr("DNS")));
}

TEST(Remote, APeerThatNeverAnswersTimesOutWithinTheConnectTimeout) {
  Listener listener;  // the kernel completes TCP's handshake; HTTP/2's never happens
  RemoteVerifier verifier({listener.address(), std::chrono::milliseconds(300)});
  EXPECT_EQ(end_of_stream(verifier).code(), StatusCode::kUnavailable);
}

TEST(Remote, ACaptivePortalsHttp1IsUnavailable) {
  Listener listener;
  std::thread portal([&] {
    listener.serve_once(
        "HTTP/1.1 302 Found\r\nLocation: http://portal/\r\nContent-Length: 0\r\n\r\n");
  });
  RemoteVerifier verifier({listener.address(), std::chrono::seconds(2)});
  const Status status = end_of_stream(verifier);
  portal.join();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr(listener.address().to_string()));
}

// HAProxy answers with such a page where a server has just ended. The next stream may go on.
TEST(Remote, AProxysPageIsALostLink) {
  Listener listener;
  std::thread proxy([&] { listener.serve_page_once("<html><h1>502 Bad Gateway</h1></html>"); });
  {
    RemoteVerifier verifier({listener.address()});
    const Status status = end_of_stream(verifier);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("502"));
  }
  proxy.join();
}

TEST(Remote, EachStartAfterAFailureIsOneFreshAttempt) {
  Listener listener;
  listener.close();
  RemoteVerifier verifier({listener.address()});
  // gRPC's own back-off would make the later ones fail without trying, or wait a second and more.
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(end_of_stream(verifier).message(), HasSubstr("refused"));
  }
}

TEST(Remote, NothingIsDeliveredAfterStop) {
  Listener listener;  // answers nothing, so that the stream's end is the only event there can be
  RemoteVerifier verifier({listener.address(), std::chrono::minutes(1)});
  int events = 0;
  verifier.start(1, [&](const FromVerifier&) { ++events; });
  verifier.send({0, 0, Open{}});
  verifier.stop();
  verifier.send({0, 0, Cancel{}});  // dropped
  EXPECT_EQ(events, 0) << "stopping ends the stream, which is nothing to tell";
}

TEST(Remote, StopWaitsForTheEventInDelivery) {
  Listener listener;
  listener.close();
  RemoteVerifier verifier({listener.address()});
  std::promise<void> inside, let_go;
  verifier.start(1, [&](const FromVerifier&) {
    inside.set_value();
    let_go.get_future().wait();
  });
  verifier.send({0, 0, Open{}});
  inside.get_future().wait();
  std::future<void> stopped = std::async(std::launch::async, [&] { verifier.stop(); });
  EXPECT_EQ(stopped.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  let_go.set_value();
  stopped.get();
}

// The result of a probe of this address.
LinkProbed probed(const Address& address, Duration timeout = from_ms(300)) {
  std::promise<LinkProbed> promise;
  RemoteProbe probe(RemoteOptions{.server = address});
  probe.probe(timeout, [&](LinkProbed answer) { promise.set_value(answer); });
  return promise.get_future().get();
}

TEST(RemoteProbe, NobodyThereIsNotGood) {
  Listener listener;
  listener.close();
  EXPECT_FALSE(probed(listener.address()).good);
}

TEST(RemoteProbe, AServerThatTakesConnectionsAndHangsIsNotGood) {
  const Listener listener;
  const LinkProbed answer = probed(listener.address());
  EXPECT_FALSE(answer.good);
  EXPECT_GE(answer.took, from_ms(290));
}

TEST(RemoteProbe, OneThatGreetsIsGood) {
  Listener listener;
  std::thread server([&] { listener.greet_once(std::string("\0\0\0\4\0\0\0\0\0", 9)); });
  EXPECT_TRUE(probed(listener.address(), std::chrono::seconds(20)).good);
  server.join();
}

TEST(RemoteProbe, NothingIsSaidAfterItWasStopped) {
  const Listener listener;
  bool said = false;
  {
    RemoteProbe probe(RemoteOptions{.server = listener.address()});
    probe.probe(from_ms(50), [&](LinkProbed) { said = true; });
    probe.stop();
  }
  EXPECT_FALSE(said);
}

}  // namespace
}  // namespace outrider
