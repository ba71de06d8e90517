// SPDX-License-Identifier: Apache-2.0
#include "bench/load/load_run.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "common/base/mutex.h"

namespace outrider {
namespace {

// A client whose request failed waits so long, so that a server that is away is not flooded.
constexpr Duration kAfterFailure = std::chrono::milliseconds(200);

class LoadRun final {
 public:
  LoadRun(const LoadShape& shape, std::span<const LoadSeat> seats,
          std::span<const LoadPrompt> prompts)
      : shape_(shape),
        prompts_(prompts),
        order_(prompt_order(prompts.size(), shape.seed)),
        schedule_(shape),
        began_(clock_.now()) {
    for (const LoadSeat& seat : seats) ++(is_greedy(seat) ? greedy_left_ : left_);
    threads_.reserve(seats.size());
    for (const LoadSeat& seat : seats) threads_.emplace_back([this, &seat] { work(seat); });
  }
  ~LoadRun() {
    for (std::thread& thread : threads_) thread.join();
  }
  LoadRun(const LoadRun&) = delete;
  LoadRun& operator=(const LoadRun&) = delete;

  // Blocks until all have ended, and shows how far they are.
  std::vector<LoadSample> finish(const std::string& title) {
    const bool terminal = isatty(STDERR_FILENO) != 0;
    const Duration every = terminal ? std::chrono::milliseconds(200) : std::chrono::seconds(10);
    const MutexLock lock(mu_);
    while (left_ > 0) {
      if (changed_.wait_until(mu_, clock_.now() + every) == std::cv_status::timeout) {
        show(title, terminal ? "\r" : "", terminal ? "\033[K" : "\n");
      }
    }
    show(title, terminal ? "\r" : "", terminal ? "\033[K\n" : "\n");
    stop_ = true;
    while (greedy_left_ > 0) changed_.wait(mu_);
    return std::move(samples_);
  }

 private:
  static bool is_greedy(const LoadSeat& seat) { return seat.kind == ClientKind::kGreedy; }
  Duration now() const { return clock_.now() - began_; }

  void work(const LoadSeat& seat) {
    bool had_answer = false;
    while (const std::optional<PlannedRequest> planned = next(seat, had_answer)) {
      clock_.sleep_until(began_ + planned->due);
      if (!is_greedy(seat)) enter();
      LoadSample sample = send(seat, *planned);
      const bool failed = !sample.status.ok();
      add(std::move(sample));
      if (failed) clock_.sleep_until(clock_.now() + kAfterFailure);
      had_answer = true;
    }
    const MutexLock lock(mu_);
    --(is_greedy(seat) ? greedy_left_ : left_);
    changed_.notify_all();
  }

  std::optional<PlannedRequest> next(const LoadSeat& seat, bool had_answer) {
    const MutexLock lock(mu_);
    if (is_greedy(seat) && stop_) return std::nullopt;
    return schedule_.next(seat.kind, now(), had_answer);
  }

  // Waits while as many requests are in flight as may be.
  void enter() {
    const MutexLock lock(mu_);
    while (shape_.concurrency > 0 && in_flight_ >= shape_.concurrency) changed_.wait(mu_);
    ++in_flight_;
  }

  LoadSample send(const LoadSeat& seat, const PlannedRequest& planned) {
    LoadSample sample{
        .kind = seat.kind, .client = seat.number, .number = planned.number, .due = planned.due};
    const LoadPrompt& prompt = prompts_[order_[planned.number % order_.size()]];
    sample.sent = now();
    const Result<ClientAnswer> answer = seat.client->answer(
        {.prompt = prompt, .seed = shape_.seed + planned.number, .stop = stop_});
    sample.ended = now();
    sample.status = answer.status();
    if (!answer.ok()) return sample;
    sample.prompt_tokens = answer->prompt_tokens;
    sample.tokens = answer->tokens;
    sample.arrivals = answer->arrivals;
    for (TokenArrival& arrival : sample.arrivals) arrival.at += sample.sent;
    return sample;
  }

  void add(LoadSample sample) {
    const MutexLock lock(mu_);
    if (sample.kind != ClientKind::kGreedy) {
      --in_flight_;
      failed_ += sample.status.ok() ? 0 : 1;
      tokens_ += sample.tokens;
      ++ended_;
    }
    samples_.push_back(std::move(sample));
    changed_.notify_all();
  }

  void show(const std::string& title, const char* begin, const char* end) const
      OUTRIDER_REQUIRES(mu_) {
    const std::string all =
        shape_.num_prompts > 0 ? " of " + std::to_string(shape_.num_prompts) : "";
    const double seconds = to_seconds(now());
    const std::string line = fmt::format(
        "{}load: {}: {}{} requests, {} failed, {} tokens, {:.1f} a second{}", begin, title, ended_,
        all, failed_, tokens_, seconds > 0 ? static_cast<double>(tokens_) / seconds : 0.0, end);
    std::fputs(line.c_str(), stderr);
  }

  const LoadShape shape_;
  const std::span<const LoadPrompt> prompts_;
  const std::vector<std::size_t> order_;
  mutable SystemClock clock_;
  std::atomic<bool> stop_{false};  // for greedy seats

  Mutex mu_;
  CondVar changed_;
  Schedule schedule_ OUTRIDER_GUARDED_BY(mu_);
  std::vector<LoadSample> samples_ OUTRIDER_GUARDED_BY(mu_);
  std::size_t left_ OUTRIDER_GUARDED_BY(mu_) = 0;  // clients that have not ended
  std::size_t greedy_left_ OUTRIDER_GUARDED_BY(mu_) = 0;
  std::size_t in_flight_ OUTRIDER_GUARDED_BY(mu_) = 0;
  std::size_t ended_ OUTRIDER_GUARDED_BY(mu_) = 0;  // requests
  std::size_t failed_ OUTRIDER_GUARDED_BY(mu_) = 0;
  std::uint64_t tokens_ OUTRIDER_GUARDED_BY(mu_) = 0;

  const TimePoint began_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::vector<LoadSample> run_load(const LoadShape& shape, std::span<const LoadSeat> seats,
                                 std::span<const LoadPrompt> prompts, const std::string& title) {
  LoadRun run(shape, seats, prompts);
  return run.finish(title);
}

}  // namespace outrider
