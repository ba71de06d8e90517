// Accepts connections for gRPC, which has no limit of its own for them: a total and one per address
// (of IPv6: per /64); further connections are closed at once. Without free descriptors it waits for
// some, where gRPC 1.51 would stop accepting for good (CVE-2023-4785).
//
//   gate = *ConnectionGate::listen(options);  gate->open(hand);  ..  gate->close();
//
// gRPC gets a connection when its first bytes are those of TLS or HTTP/2, according to the port. A
// connection with another protocol is closed and reported to on_foreign; gRPC 1.51 would close it
// silently. One that sends nothing within handshake_timeout is closed, too.
//
// A connection is unauthenticated until mark_authenticated() names its peer. When the total is
// reached, a new connection evicts the oldest unauthenticated one, if that is older than
// unauthenticated_grace: so idle clients cannot block the server. An unauthenticated connection
// that sends more than max_unauthenticated_bytes is closed. When all of them together have sent
// more than max_unauthenticated_bytes_total, the one that sent most is closed. The reason: gRPC
// 1.51 buffers a header without end, and parses it again with each part (CVE-2023-33953).
//
// A connection counts until gRPC has closed it. gRPC does not report that, so the gate keeps a
// second descriptor of each connection, by which the kernel reports that both directions are shut
// down.
//
// A separate thread passes connections to gRPC, which reads on the calling thread while bytes
// arrive: a flooding peer would otherwise keep the gate from counting them.
//
// Thread rule: listen, open, close and the destructor from one thread, mark_authenticated() and
// stats() from any; `hand` is called on a thread of the gate. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/posix.h"
#include "common/base/status.h"

namespace outrider {

struct ConnectionGateOptions {
  Address listen;                            // port 0: any free one
  std::size_t max_connections = 0;           // 0: no bound
  std::size_t max_connections_per_peer = 0;  // of one address (network_of()); 0: no bound
  bool tls = false;                          // whether peers use TLS
  Duration handshake_timeout = std::chrono::seconds(20);      // until a peer's first bytes
  Duration unauthenticated_grace{0};                          // no eviction before this age
  std::uint64_t max_unauthenticated_bytes = 2u << 20;         // of one connection; 0: no bound
  std::uint64_t max_unauthenticated_bytes_total = 64u << 20;  // of all of them together
  std::function<void(const std::string&)> log = {};  // errors of the system; empty: not logged
  // Called for a peer that speaks another protocol, on the gate's thread. May be empty.
  std::function<void(const std::string& peer, const Status&)> on_foreign = {};
};

struct ConnectionStats {
  std::uint64_t open = 0;     // at present
  std::uint64_t refused = 0;  // for a bound, or because they sent nothing
};

class ConnectionGate final {
 public:
  // Takes a connection and owns it from then on.
  using Hand = std::function<void(int listener, int connection)>;

  // UNAVAILABLE if the address cannot be listened on, with the system's reason.
  static Result<std::unique_ptr<ConnectionGate>> listen(ConnectionGateOptions options);
  ~ConnectionGate() { close(); }
  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

  std::uint16_t port() const;
  void open(Hand hand);
  // Accepts no more connections; open ones stay. May be called again.
  void close();
  // peer: as gRPC writes it, "ipv4:192.0.2.1:50412".
  void mark_authenticated(const std::string& peer);

  ConnectionStats stats() const {
    return {open_.load(std::memory_order_relaxed), refused_.load(std::memory_order_relaxed)};
  }

 private:
  struct Watched {
    UniqueFd fd;           // a second descriptor of the connection
    UniqueFd connection;   // until gRPC has it
    int listener = -1;     // the listener that accepted it
    std::string network;   // the address whose bound it counts for
    std::string endpoint;  // host and port
    TimePoint since;
    bool known = false;
    std::uint64_t sent = 0;  // bytes that it sent while unauthenticated
  };

  struct Greeted {
    int listener = -1;
    UniqueFd connection;
  };

  explicit ConnectionGate(ConnectionGateOptions options) : options_(std::move(options)) {}
  void run();
  void pass_to_grpc();
  bool accept_from(int listener);
  // `peer.fd` becomes a second descriptor of its connection.
  void take(Watched peer);
  bool may_enter(const std::string& network);
  bool evict_unauthenticated();
  void on_peer(int watched, std::uint32_t events);
  void greet(int watched);
  void count_sent(int watched);
  void close_silent();
  void note_authenticated();
  void watch(bool accepting);
  void refuse(int watched);
  void forget(int watched);

  const ConnectionGateOptions options_;
  std::vector<UniqueFd> listeners_;
  UniqueFd epoll_;
  UniqueFd stop_;  // readable: the gate's thread shall end
  Hand hand_;
  std::thread thread_;
  std::thread passing_thread_;

  // Used by the gate's thread only.
  SystemClock clock_;
  std::map<int, Watched> watched_;          // by Watched::fd
  std::map<std::string, int> of_endpoint_;  // to Watched::fd
  std::map<std::string, std::size_t> of_network_;
  std::size_t waiting_ = 0;  // connections that gRPC does not have yet
  std::uint64_t sent_ = 0;   // bytes sent by all unauthenticated connections

  Mutex mu_;
  CondVar changed_;
  std::set<std::string> authenticated_
      OUTRIDER_GUARDED_BY(mu_);                           // endpoints, for the gate's thread
  std::deque<Greeted> greeted_ OUTRIDER_GUARDED_BY(mu_);  // for the thread that passes them to gRPC
  bool closing_ OUTRIDER_GUARDED_BY(mu_) = false;

  std::atomic<std::uint64_t> open_{0};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace outrider
