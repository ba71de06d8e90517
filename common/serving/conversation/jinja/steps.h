// The time that a template may take: a number of steps, and a deadline of its thread's own time.
//
// Steps are counted, so that a template ends at the same place on every machine. An operation takes
// at least one, and each byte that it reads or writes takes a part of one. The deadline is the
// second bound, for a machine on which steps are slow. It counts the processor time of this thread
// alone, so that other threads do not shorten it. Every loop over a text or a list asks here, also
// in the middle of one operation.
//
// Thread rule: one thread, the one that made it. Units: bytes; kBytesPerStep of them are one step.
// Errors: a Failure of RESOURCE_EXHAUSTED at a bound. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace outrider::jinja {

// The processor time that this thread has used.
std::chrono::nanoseconds thread_time();

class Steps final {
 public:
  static constexpr std::int64_t kUnlimited = INT64_MAX;

  Steps(std::int64_t max_steps, std::chrono::nanoseconds max_time);
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  void take(std::size_t count) { spend(count * kBytesPerStep); }
  // Bytes that are copied, compared or searched many at a time.
  void look(std::size_t bytes) { spend(bytes); }
  // Bytes that are looked at one by one.
  void look_closely(std::size_t bytes) { spend(bytes * 4); }

  // Exists once for each level of values within each other, which a function visits by calling
  // itself.
  class Nested final {
   public:
    explicit Nested(Steps& steps);
    ~Nested() { --steps_.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Steps& steps_;
  };

 private:
  static constexpr std::size_t kBytesPerStep = 64;
  static constexpr int kMaxNestedValues = 100;

  void spend(std::size_t bytes) {
    if (bytes > until_check_) return check(bytes);
    until_check_ -= bytes;
  }
  void check(std::size_t bytes);

  const std::chrono::nanoseconds deadline_;
  std::size_t left_;             // bytes, without those of until_check_
  std::size_t until_check_ = 0;  // bytes up to the next look at the clock
  int nesting_ = 0;
};

}  // namespace outrider::jinja
