// SPDX-License-Identifier: Apache-2.0
#include "bench/load/load_plan.h"

#include <charconv>
#include <cmath>
#include <numeric>

#include "emulation/random/random.h"

namespace outrider {
namespace {

// Exponential, of mean 1; the draw of one request does not depend on others.
double exponential(std::uint64_t seed, std::size_t number) {
  return -std::log(1 - unit(mixed(seed * kGoldenStep ^ mixed(number))));
}

Duration scaled(Duration mean, double factor) {
  return from_ms(to_ms(mean) * factor);
}

}  // namespace

Status check_load(const LoadShape& shape) {
  if (shape.clients() == 0) {
    return invalid_argument("there are no clients. Remedy: --edges N, --openai-clients N, or both");
  }
  if (shape.num_prompts == 0 && shape.duration == Duration{0}) {
    return invalid_argument(
        "--num-prompts is 0 and --duration too, so the load would never end. Remedy: one of them");
  }
  if (shape.is_open_loop() && shape.think_time > Duration{0}) {
    return invalid_argument(
        "--think-time is for clients that wait for their answers, --request-rate for arrivals that "
        "do not. Remedy: leave one out");
  }
  return {};
}

Result<double> parse_request_rate(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  double rate = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, rate);
  if (error == std::errc() && rest == end && std::isfinite(rate) && rate > 0) return rate;
  return invalid_argument(printable(text) + ": expected requests a second, more than 0, or inf");
}

std::vector<std::size_t> prompt_order(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  SplitMix(seed).shuffle(order);
  return order;
}

std::optional<PlannedRequest> Schedule::next(ClientKind kind, Duration now, bool had_answer) {
  if (kind == ClientKind::kGreedy) return PlannedRequest{.due = now};
  if (shape_.is_open_loop()) return arrival(kind);
  PlannedRequest request{.number = count_, .due = now};
  if (had_answer) request.due += scaled(shape_.think_time, exponential(shape_.seed, count_));
  if (is_over(request)) return std::nullopt;
  ++count_;
  return request;
}

bool Schedule::is_over(const PlannedRequest& request) const {
  if (shape_.num_prompts > 0 && request.number >= shape_.num_prompts) return true;
  return shape_.duration > Duration{0} && request.due > shape_.duration;
}

// Request k is an edge's if the edges' share of k + 1 requests is a whole one more than of k.
std::optional<PlannedRequest> Schedule::arrival(ClientKind kind) {
  std::deque<PlannedRequest>& waiting = arrived_[static_cast<std::size_t>(kind)];
  while (waiting.empty()) {
    if (count_ > 0) {
      const Duration mean = from_ms(1e3 / shape_.request_rate);
      last_due_ += scaled(mean, exponential(shape_.seed, count_));
    }
    const PlannedRequest request{.number = count_, .due = last_due_};
    if (is_over(request)) return std::nullopt;  // and so is every later one
    const auto of_edges = [&](std::size_t requests) {
      return requests * shape_.edges / shape_.clients();
    };
    const bool is_edges = of_edges(count_ + 1) > of_edges(count_);
    ++count_;
    arrived_[static_cast<std::size_t>(is_edges ? ClientKind::kEdge : ClientKind::kOpenAi)]
        .push_back(request);
  }
  const PlannedRequest next = waiting.front();
  waiting.pop_front();
  return next;
}

}  // namespace outrider
