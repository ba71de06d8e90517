// The connections of an HTTP server: which one is evicted for a new one, and the memory of
// unfinished bodies.
//
//   enter (begin_body take_body* begin_answer? end_request)* leave
//
// A new connection is always accepted. Where the limit is reached, a connection without a complete
// request is evicted for it. First go those that have not sent a head, or none since their last
// answer; then those that send a body; last those of them that are authenticated; within each group
// the oldest of the network that has most. So idle connections cannot keep others out, and a health
// probe is always answered. A complete request is never evicted; beyond the bound for complete
// requests the next one is refused.
//
// Bounds hold for all connections, and for each network (network_of() an address). A network has at
// most as many requests answered at a time as are left for others. Thread rule: one thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

struct ConnectionBounds {
  std::size_t requests = 1024;  // requests being answered
  std::size_t requests_per_network = 256;
  std::size_t body_bytes = std::size_t{16} << 20;  // of unfinished bodies
  std::size_t body_bytes_per_network = std::size_t{4} << 20;
};

class HttpConnections final {
 public:
  // Connections in addition to those being answered.
  static constexpr std::size_t kSpare = 64;
  static constexpr std::size_t kSparePerNetwork = 16;

  enum class Stage : std::uint8_t { kIdle, kBody, kAnswered };
  struct Connection {
    int fd = -1;
    std::string peer;  // its address
    std::string network;
    Stage stage = Stage::kIdle;
    TimePoint since{};            // when the current state began
    bool known = false;           // the sender of the body is authenticated
    std::string* body = nullptr;  // so far; freed when the connection is evicted
    std::size_t body_bytes = 0;
    bool leaving = false;  // its socket is shut down
  };

  explicit HttpConnections(const ConnectionBounds& bounds) : bounds_(bounds) {}

  // fd: stays open until leave(). peer: whose address.
  Connection& enter(int fd, const std::string& peer, TimePoint now);
  void leave(Connection& connection);

  // known: the sender's key was checked.
  void begin_body(Connection& connection, std::string* body, bool known, TimePoint now);
  // Appends to the body. RESOURCE_EXHAUSTED if there is no room even after evictions.
  Status take_body(Connection& connection, std::string_view bytes);
  // The request is complete. RESOURCE_EXHAUSTED if too many are being answered.
  Status begin_answer(Connection& connection, TimePoint now);
  void end_request(Connection& connection, TimePoint now);

  std::size_t open() const { return all_.size(); }
  // The number of evicted connections.
  std::uint64_t sent_away() const { return sent_away_; }

 private:
  struct Sum {
    std::size_t connections = 0;  // that are not leaving
    std::size_t answered = 0;
    std::size_t body_bytes = 0;
  };
  // The next connection to evict, of this network or of all; null: there is none except `stays`.
  Connection* first_to_leave(const std::string* network, const Connection& stays, bool has_body);
  void send_away(Connection& connection);
  void release_body(Connection& connection);
  void set_stage(Connection& connection, Stage stage, TimePoint now);

  const ConnectionBounds bounds_;
  std::list<Connection> all_;
  Sum sum_;
  std::map<std::string, Sum> of_network_;
  std::uint64_t sent_away_ = 0;
};

}  // namespace outrider
