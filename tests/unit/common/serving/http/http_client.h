// A plain HTTP client for tests: one request for each connection.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "common/base/address.h"

namespace outrider {

class HttpClient final {
 public:
  // from: the client's own address, one of 127.0.0.0/8.
  explicit HttpClient(const Address& server, const std::string& from = "127.0.0.1")
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    inet_pton(AF_INET, from.c_str(), &own.sin_addr);
    bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof own);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  // Closes the sending side, and continues reading.
  void end_sending() { shutdown(fd_, SHUT_WR); }
  void send(const std::string& bytes) { ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void get(const std::string& path, const std::string& headers = "") {
    send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
         "\r\n");
  }
  void post(const std::string& path, const std::string& body, const std::string& headers = "") {
    send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body);
  }

  // Reads until `wanted` has come, or to the end.
  const std::string& read_until(const std::string& wanted) {
    std::array<char, 4096> some;
    while (wanted.empty() || heard_.find(wanted) == std::string::npos) {
      const ssize_t got = recv(fd_, some.data(), some.size(), 0);
      if (got <= 0) {
        was_reset_ = got < 0 && errno == ECONNRESET;
        break;
      }
      heard_.append(some.data(), static_cast<std::size_t>(got));
    }
    return heard_;
  }
  // Whether a part of the answer has come.
  bool has_come() const {
    char first;
    return recv(fd_, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
  }
  const std::string& read_all() { return read_until(""); }
  // Whether the last read ended with an error instead of an end.
  bool was_reset() const { return was_reset_; }

 private:
  int fd_;
  bool connected_ = false;
  bool was_reset_ = false;
  std::string heard_;
};

// The whole answer, head and body.
inline std::string http_get(const Address& server, const std::string& path,
                            const std::string& headers = "") {
  HttpClient client(server);
  client.get(path, headers);
  return client.read_all();
}

}  // namespace outrider
