// A TCP link through a proxy in user space; it needs no rights. Modelled: the data it carries is
// real, but the distance and the effect of packets on TCP are not. The kernels on both sides of the
// proxy acknowledge at once, so loss is a delay here, and a half-open link looks alive to the
// sender. path/stream_path.h says how each impairment appears; a reset closes connections with RST.
//
// The kernel's handshake with the proxy is not delayed. The end of a stream is delayed like its
// bytes. At most kMaxInFlight bytes per direction are in flight; then the sender waits, as on a
// real link with that bandwidth-delay product. Connections share the rate and its queue.
//
// Thread rule: it has one thread of its own; any thread may call everything except route().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/posix.h"
#include "emulation/link/link.h"
#include "emulation/path/stream_path.h"

namespace outrider {

// One direction of a proxied connection: reads one socket and writes to the other when due.

// Time since a link's start.
struct LinkClock {
  const Clock& clock;
  TimePoint start;

  Duration now() const { return clock.now() - start; }
};

class StreamPipe final {
 public:
  // count: bytes that left. count, the clock and the path of `stream` must outlive the pipe.
  StreamPipe(int from, int to, std::size_t max_in_flight, StreamPath stream, const LinkClock& clock,
             std::atomic<std::uint64_t>& count)
      : from_(from),
        to_(to),
        max_in_flight_(max_in_flight),
        stream_(stream),
        clock_(clock),
        count_(count) {}

  int from() const { return from_; }
  int to() const { return to_; }

  // Reads what has arrived, as far as the path has room. Order is kept.
  void take();
  // Writes what is due, and forwards the end of the stream after it.
  void deliver();

  bool wants_to_read() const {
    return !held_ && !ended_ && !broken_ && !room_at_ && in_flight_ < max_in_flight_;
  }
  // Whether the socket did not accept everything that was due.
  bool wants_to_write() const { return blocked_; }
  // When there is work next; nothing if a socket must become ready first.
  std::optional<Duration> next_due() const;
  bool finished() const { return finished_; }

  // While held it carries nothing; data that arrives meanwhile is delivered afterwards.
  void hold(bool held) { held_ = held; }
  // Flips one bit of the next data read.
  void garble() { garbles_ = true; }

  // Whether a socket failed, so that the connection cannot continue.
  bool broken() const { return broken_; }

 private:
  struct Chunk {
    Duration due;
    std::vector<char> bytes;
    std::size_t written = 0;
  };

  bool write_front();

  const int from_;
  const int to_;
  const std::size_t max_in_flight_;
  StreamPath stream_;
  const LinkClock& clock_;
  std::atomic<std::uint64_t>& count_;
  std::deque<Chunk> chunks_;
  std::size_t in_flight_ = 0;        // bytes
  std::optional<Duration> room_at_;  // when the path, now full, has room again
  std::optional<Duration> end_due_;  // the end of the stream was read; when it is delivered
  bool ended_ = false;
  bool blocked_ = false;
  bool finished_ = false;
  bool broken_ = false;
  bool held_ = false;
  bool garbles_ = false;
};

// How a link treats its connections in addition to its profile; it may change at any moment.
struct LinkFaults {
  bool refuses = false;   // connections are reset, new ones refused
  bool holds_up = false;  // half open: nothing reaches the server, and neither side is notified
  bool holds_down = false;
  std::string source = {};             // in 127.0.0.0/8: the source address of new connections
  std::optional<Address> server = {};  // of new connections; nothing: that of route()
};

class ProxyLink final : public Link {
 public:
  static constexpr std::size_t kMaxInFlight = std::size_t{8} << 20;

  ProxyLink(LinkProfile profile, std::uint64_t seed);
  // Resets the open connections.
  ~ProxyLink() override;

  const LinkProfile& profile() const override { return profile_; }
  const char* kind() const override { return "modelled"; }
  NetworkSide edge_side() const override { return {}; }
  NetworkSide server_side() const override { return {}; }
  // server: its host is a numeric IPv4 address. The profile's time starts here.
  Result<Address> route(const Address& server) override;
  CarriedBytes traffic() const override { return {up_.load(), down_.load()}; }
  LinkCounts counts() const override {
    return {up_counts_.read(), down_counts_.read(), resets_.load()};
  }
  void begin_again(Duration offset, std::uint64_t seed) override { restart_.ask({offset, seed}); }

  const Address& address() const { return address_; }

  // Replaces the current faults. Connections are reset even if the next call comes at once.
  void impose(const LinkFaults& faults);
  // Replaces the profile, for open connections too, until the profile restarts.
  void become(const LinkProfile& profile);
  // Flips one bit of the next data from the server on each connection.
  void garble();

 private:
  class Loop;

  struct Asked {
    std::optional<LinkFaults> faults;
    bool resets = false;
    std::optional<LinkProfile> profile;
    bool garbles = false;
  };
  void wake() const;

  const LinkProfile profile_;
  const std::uint64_t seed_;
  Address upstream_;
  Address address_;
  UniqueFd listener_;
  UniqueFd wake_;  // an eventfd
  std::atomic<bool> stopping_{false};
  LinkRestart restart_;
  Mutex mu_;
  Asked asked_ OUTRIDER_GUARDED_BY(mu_);
  std::atomic<std::uint64_t> up_{0};
  std::atomic<std::uint64_t> down_{0};
  SharedPathCounts up_counts_;
  SharedPathCounts down_counts_;
  std::atomic<std::uint64_t> resets_{0};  // of connections
  std::thread thread_;
};

}  // namespace outrider
