// Accepts connections in gRPC's place, which has no bound of its own for them: so many in all and
// from each address (of IPv6: each /64), the next is closed at once. Without free descriptors it
// waits for some, where gRPC 1.51 would never accept again (CVE-2023-4785).
//
//   gate = *ConnectionGate::listen(options);  gate->open(hand);  ..  gate->close();
//
// gRPC gets a connection once its first bytes are those of TLS or HTTP/2, whichever this port
// speaks; another protocol is closed and told to on_foreign, where gRPC 1.51 closes it without a
// word. Who says nothing within handshake_timeout is closed, too.
//
// A connection is a stranger's until vouch() names its peer, as one whose key is known. Where all
// places are taken, the next takes that of the stranger who has been there longest, unless that is
// shorter than stranger_time: so strangers cannot keep all places by being there. A stranger who
// sends more than stranger_bytes is closed, and the one with most if all of them have sent more
// than strangers_bytes: gRPC 1.51 keeps a header that does not end, and reads it again with each
// part that comes (CVE-2023-33953).
//
// A connection counts until gRPC has let go of it. gRPC does not tell; so the gate keeps a second
// descriptor of each, by which the kernel says when both directions are shut down.
//
// Connections are handed over on a thread of their own: gRPC reads on it for as long as bytes come,
// so a peer that floods would keep the gate from counting them.
//
// Thread rule: listen, open, close and the destructor from one thread, vouch() and stats() from
// any; `hand` is called on one of the gate's own. SPDX-License-Identifier: Apache-2.0
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
  std::size_t max_connections_per_peer = 0;  // of one network_of() an address; 0: no bound
  bool tls = false;                          // whether peers greet by TLS
  Duration handshake_timeout = std::chrono::seconds(20);  // for a peer's first bytes
  Duration stranger_time{0};  // that a stranger's place is its own even if all are taken
  std::uint64_t stranger_bytes = 2u << 20;           // that a stranger may send; 0: no bound
  std::uint64_t strangers_bytes = 64u << 20;         // that all of them may have sent
  std::function<void(const std::string&)> log = {};  // of what the system refuses; empty: nothing
  // Told of a peer that speaks another protocol, on the gate's thread. Empty: nobody.
  std::function<void(const std::string& peer, const Status&)> on_foreign = {};
};

struct ConnectionStats {
  std::uint64_t open = 0;     // now
  std::uint64_t refused = 0;  // for a bound, or since they said nothing
};

class ConnectionGate final {
 public:
  // Takes a connection, which it owns from then on.
  using Hand = std::function<void(int listener, int connection)>;

  // UNAVAILABLE if the address cannot be listened on, with the system's reason.
  static Result<std::unique_ptr<ConnectionGate>> listen(ConnectionGateOptions options);
  ~ConnectionGate() { close(); }
  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

  std::uint16_t port() const;
  void open(Hand hand);
  // Nobody comes in any more; who is in stays. Harmless if it is closed.
  void close();
  // peer: as gRPC writes it, "ipv4:192.0.2.1:50412".
  void vouch(const std::string& peer);

  ConnectionStats stats() const {
    return {open_.load(std::memory_order_relaxed), refused_.load(std::memory_order_relaxed)};
  }

 private:
  struct Watched {
    UniqueFd fd;           // a second descriptor of the connection
    UniqueFd connection;   // until gRPC has it
    int listener = -1;     // that it came by
    std::string network;   // whose bound it counts for
    std::string endpoint;  // host and port
    TimePoint since;
    bool known = false;
    std::uint64_t sent = 0;  // by a stranger, as it was last seen
  };

  struct Greeted {
    int listener = -1;
    UniqueFd connection;
  };

  explicit ConnectionGate(ConnectionGateOptions options) : options_(std::move(options)) {}
  void run();
  void hand_over();
  bool accept_from(int listener);
  // `peer.fd` becomes a second descriptor of its connection.
  void take(Watched peer);
  bool may_enter(const std::string& network);
  bool send_stranger_away();
  void on_peer(int watched, std::uint32_t events);
  void greet(int watched);
  void count_sent(int watched);
  void close_silent();
  void note_vouched();
  void watch(bool accepting);
  void refuse(int watched);
  void forget(int watched);

  const ConnectionGateOptions options_;
  std::vector<UniqueFd> listeners_;
  UniqueFd epoll_;
  UniqueFd stop_;  // readable: the thread shall end
  Hand hand_;
  std::thread thread_;
  std::thread hander_;

  // The thread's.
  SystemClock clock_;
  std::map<int, Watched> watched_;          // by their descriptor here
  std::map<std::string, int> of_endpoint_;  // that descriptor
  std::map<std::string, std::size_t> of_network_;
  std::size_t waiting_ = 0;  // connections that gRPC does not have yet
  std::uint64_t sent_ = 0;   // by all strangers who are here

  Mutex mu_;
  CondVar changed_;
  std::set<std::string> vouched_ OUTRIDER_GUARDED_BY(mu_);  // endpoints, for the thread
  std::deque<Greeted> greeted_ OUTRIDER_GUARDED_BY(mu_);    // for the hander
  bool closing_ OUTRIDER_GUARDED_BY(mu_) = false;

  std::atomic<std::uint64_t> open_{0};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace outrider
