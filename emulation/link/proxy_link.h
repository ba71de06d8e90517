// A TCP link through a proxy in user space: needs no rights. Modelled: what it carries is real, the
// distance is not, and neither is what packets do to TCP: the kernels on both sides of the proxy
// acknowledge at once, so loss is a delay here and a half-open link looks alive to the sender.
// path/stream_path.h says what each impairment becomes; reset closes connections with RST.
//
// The kernel's handshake with us is not delayed; the end of a stream is delayed as its bytes are.
// At most kMaxInFlight bytes a direction are on their way; then the sender waits, as on a real link
// with that product of bandwidth and delay. Connections share the rate and its queue.
//
// Thread rule: one thread of its own; all but route() from anywhere.
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

// One direction of a proxied connection: reads a socket, writes another when the path says so.

// Time since a link's start.
struct LinkClock {
  const Clock& clock;
  TimePoint start;

  Duration now() const { return clock.now() - start; }
};

class StreamPipe final {
 public:
  // count: bytes that left. It, the clock and the path of `stream` outlive the pipe.
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

  // Takes what has arrived, as far as the path has room; none overtakes another.
  void take();
  // Writes what is due; passes the end of the stream on once all is written.
  void deliver();

  bool wants_to_read() const {
    return !held_ && !ended_ && !broken_ && !room_at_ && in_flight_ < max_in_flight_;
  }
  // The socket did not take all that was due.
  bool wants_to_write() const { return blocked_; }
  // When there is something to do next; nothing if a socket must move first.
  std::optional<Duration> next_due() const;
  bool finished() const { return finished_; }

  // While it is held it carries nothing; what comes meanwhile arrives afterwards.
  void hold(bool held) { held_ = held; }
  // One bit of what is read next arrives changed.
  void garble() { garbles_ = true; }

  // A socket failed: the connection cannot go on.
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
  std::optional<Duration> room_at_;  // the path was full
  std::optional<Duration> end_due_;  // the end of the stream was read and arrives then
  bool ended_ = false;
  bool blocked_ = false;
  bool finished_ = false;
  bool broken_ = false;
  bool held_ = false;
  bool garbles_ = false;
};

// What a link does to its connections beside what its profile says, from one moment to the next.
struct LinkFaults {
  bool refuses = false;   // connections are reset, new ones refused
  bool holds_up = false;  // half open: nothing comes to the server any more, and nobody is told
  bool holds_down = false;
  std::string source = {};  // of 127.0.0.0/8: from where the server sees new connections
};

class ProxyLink final : public Link {
 public:
  static constexpr std::size_t kMaxInFlight = std::size_t{8} << 20;

  ProxyLink(LinkProfile profile, std::uint64_t seed);
  // Cuts what is connected.
  ~ProxyLink() override;

  const LinkProfile& profile() const override { return profile_; }
  const char* kind() const override { return "modelled"; }
  NetworkSide edge_side() const override { return {}; }
  NetworkSide server_side() const override { return {}; }
  // server: its host is a numeric IPv4 address. Time counts from here.
  Result<Address> route(const Address& server) override;
  CarriedBytes traffic() const override { return {up_.load(), down_.load()}; }
  LinkCounts counts() const override {
    return {up_counts_.read(), down_counts_.read(), resets_.load()};
  }
  void begin_again(Duration offset, std::uint64_t seed) override { restart_.ask({offset, seed}); }

  const Address& address() const { return address_; }

  // These hold from now on, instead of those before.
  void impose(const LinkFaults& faults);
  // The profile from now on, also for what is connected, until it begins again.
  void become(const LinkProfile& profile);
  // Of each connection a bit changes in what the server says next.
  void garble();

 private:
  class Loop;

  struct Asked {
    std::optional<LinkFaults> faults;
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
