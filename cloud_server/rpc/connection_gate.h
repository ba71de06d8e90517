// Accepts connections in gRPC's place, which has no bound of its own for them: so many in all and
// from each address, the next is closed at once. Without free descriptors it waits for some, where
// gRPC 1.51 would never accept again (CVE-2023-4785).
//
//   gate = *ConnectionGate::listen(options);  gate->open(hand);  ..  gate->close();
//
// A connection is a stranger's until vouch() names its peer, as one whose key is known. Where all
// places are taken, the next takes that of the stranger who has been there longest, unless that is
// shorter than stranger_time: so strangers cannot keep all places by being there.
//
// A connection counts until gRPC has let go of it. gRPC does not tell; so the gate keeps a second
// descriptor of each, by which the kernel says when both directions are shut down.
//
// Thread rule: listen, open, close and the destructor from one thread, vouch() and stats() from
// any; `hand` is called on the gate's own. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
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
  std::size_t max_connections_per_peer = 0;  // of one address; 0: no bound
  Duration stranger_time{0};  // that a stranger's place is its own even if all are taken
  std::function<void(const std::string&)> log = {};  // of what the system refuses; empty: nothing
};

struct ConnectionStats {
  std::uint64_t open = 0;     // now
  std::uint64_t refused = 0;  // for a bound
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
  // Of a connection that gRPC has.
  struct Watched {
    UniqueFd fd;
    std::string host;
    std::string endpoint;  // host and port
    TimePoint since;
    bool known = false;
  };

  explicit ConnectionGate(ConnectionGateOptions options) : options_(std::move(options)) {}
  void run();
  bool accept_from(int listener);
  // `peer.fd` becomes a second descriptor of it.
  void take(int listener, UniqueFd connection, Watched peer);
  bool may_enter(const std::string& host);
  bool send_stranger_away();
  void note_vouched();
  void watch(bool accepting);
  void forget(int watched);

  const ConnectionGateOptions options_;
  std::vector<UniqueFd> listeners_;
  UniqueFd epoll_;
  UniqueFd stop_;  // readable: the thread shall end
  Hand hand_;
  std::thread thread_;

  // The thread's.
  SystemClock clock_;
  std::map<int, Watched> watched_;          // by their descriptor here
  std::map<std::string, int> of_endpoint_;  // that descriptor
  std::map<std::string, std::size_t> of_host_;

  Mutex mu_;
  std::set<std::string> vouched_ OUTRIDER_GUARDED_BY(mu_);  // endpoints, for the thread

  std::atomic<std::uint64_t> open_{0};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace outrider
