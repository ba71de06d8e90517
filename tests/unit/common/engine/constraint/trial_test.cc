// SPDX-License-Identifier: Apache-2.0
#include "common/engine/constraint/trial.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

namespace outrider {
namespace {

using namespace std::chrono_literals;

constexpr TrialBounds kBounds{.time = 300ms, .bytes = std::size_t{32} << 20};

TEST(Trial, GivesWhatTheWorkGives) {
  EXPECT_EQ(*compute_in_child([] { return std::string(); }, kBounds), "");
  // More than a pipe holds.
  std::string large(5'000'000, 'x');
  for (std::size_t i = 0; i < large.size(); i += 977) large[i] = static_cast<char>(i);
  EXPECT_TRUE(*compute_in_child([&] { return large; }, kBounds) == large);
}

TEST(Trial, TheEndOfThePipeIsNotWaitedFor) {
  // A process of the work's own holds the pipe open for longer than an answer is waited for.
  const auto work = []() -> Result<std::string> {
    if (fork() == 0) {
      std::this_thread::sleep_for(2s);
      _exit(0);
    }
    return std::string("done");
  };
  const auto result = compute_in_child(work, kBounds);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(*result, "done");
}

TEST(Trial, GivesTheWorksOwnError) {
  const auto work = []() -> Result<std::string> { return invalid_argument("that is wrong"); };
  EXPECT_EQ(compute_in_child(work, kBounds).status(), invalid_argument("that is wrong"));
}

TEST(Trial, WhatTheWorkChangesStaysThere) {
  int changed = 0;
  const auto work = [&] {
    changed = 1;
    return std::string();
  };
  EXPECT_TRUE(compute_in_child(work, kBounds).ok());
  EXPECT_EQ(changed, 0);
}

TEST(Trial, EndsWhatTakesTooLong) {
  const SystemClock clock;
  const TimePoint begin = clock.now();
  const Status status = compute_in_child(
                            [] {
                              std::this_thread::sleep_for(1min);
                              return std::string();
                            },
                            kBounds)
                            .status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("takes too long"), std::string::npos) << status.message();
  EXPECT_LT(clock.now() - begin, 20s);
}

TEST(Trial, EndsWhatTakesTooMuchMemory) {
  const auto work = []() -> Result<std::string> {
    std::vector<std::vector<char>> held;
    while (true) {
      held.emplace_back(1 << 20, 'x');
      std::this_thread::sleep_for(1ms);
    }
  };
  const Status status =
      compute_in_child(work, {.time = 20s, .bytes = std::size_t{32} << 20}).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("too much memory"), std::string::npos) << status.message();
}

TEST(Trial, ACrashIsARefusal) {
  const auto work = []() -> Result<std::string> { std::_Exit(3); };
  EXPECT_EQ(compute_in_child(work, kBounds).status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace outrider
