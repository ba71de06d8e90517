// The requests of a load and their times: the clients, the arrivals of requests, and who sends
// which prompt.
//
// Open loop: requests arrive as a Poisson process of `request_rate` a second, whether earlier ones
// are answered or not, and go to the clients of each kind in the shares in which these are there.
// Closed loop (an infinite rate): each client sends its next request when it has its answer, after
// a time to think.
//
// The same seed gives the same requests, with the same prompts, seeds and arrivals.
//
// Thread rule: pure functions; a Schedule belongs to one thread, or is guarded by its owner.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/status.h"

namespace outrider {

enum class ClientKind : std::uint8_t {
  kEdge,    // a gRPC session, with a draft or without
  kOpenAi,  // streams from /v1/chat/completions
  kGreedy,  // a gRPC session with as many guesses as the protocol allows, sent until others are
            // done
};

template <>
inline constexpr auto enum_names<ClientKind> =
    std::to_array<EnumName<ClientKind>>({{ClientKind::kEdge, "edge"},
                                         {ClientKind::kOpenAi, "openai"},
                                         {ClientKind::kGreedy, "greedy"}});

struct LoadShape {
  std::size_t edges = 0;
  std::size_t openai_clients = 0;
  std::size_t greedy_sessions = 0;
  double request_rate = std::numeric_limits<double>::infinity();  // a second
  std::size_t concurrency = 0;  // most requests in flight at once; 0: as many as there are clients
  std::size_t num_prompts = 0;  // requests in all; 0: until `duration`
  Duration duration{0};         // no request is sent after it; 0: no such end
  Duration think_time{0};       // the mean of an exponential distribution
  std::uint64_t seed = 1;

  std::size_t clients() const { return edges + openai_clients; }
  bool is_open_loop() const { return request_rate < std::numeric_limits<double>::infinity(); }
};

// INVALID_ARGUMENT names the flag and the remedy: no clients, no end, a closed loop's flag with an
// open one.
Status check_load(const LoadShape& shape);

// "inf", or a number of requests a second above 0.
Result<double> parse_request_rate(const std::string& text);

// [number % size]: the prompt of each request; a shuffle of `count` prompts by the seed.
std::vector<std::size_t> prompt_order(std::size_t count, std::uint64_t seed);

struct PlannedRequest {
  std::size_t number = 0;
  Duration due{0};  // since the load began
};

class Schedule final {
 public:
  explicit Schedule(const LoadShape& shape) : shape_(shape) {}

  // The next request of a client of this kind, which is free `now`, since the load began. Nothing:
  // no more are to come. In a closed loop it is due at once, later by the time to think if the
  // client has had an answer before.
  std::optional<PlannedRequest> next(ClientKind kind, Duration now, bool had_answer);

 private:
  std::optional<PlannedRequest> arrival(ClientKind kind);
  bool is_over(const PlannedRequest& request) const;

  const LoadShape shape_;
  std::size_t count_ = 0;  // of requests so far
  Duration last_due_{0};
  std::array<std::deque<PlannedRequest>, 2> arrived_;  // [kind]: not taken yet
};

}  // namespace outrider
