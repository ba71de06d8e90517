// SPDX-License-Identifier: Apache-2.0
#include "common/engine/constraint/trial.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

namespace outrider {
namespace {

using namespace std::chrono_literals;

constexpr TrialBounds kBounds{.time = 300ms, .bytes = std::size_t{32} << 20};

TEST(Trial, GivesTheWorksOwnStatus) {
  EXPECT_TRUE(try_in_child([] { return Status(); }, kBounds).ok());
  EXPECT_EQ(try_in_child([] { return invalid_argument("that is wrong"); }, kBounds),
            invalid_argument("that is wrong"));
}

TEST(Trial, WhatTheWorkChangesStaysThere) {
  int changed = 0;
  const auto work = [&] {
    changed = 1;
    return Status();
  };
  EXPECT_TRUE(try_in_child(work, kBounds).ok());
  EXPECT_EQ(changed, 0);
}

TEST(Trial, EndsWhatTakesTooLong) {
  const SystemClock clock;
  const TimePoint begin = clock.now();
  const Status status = try_in_child(
      [] {
        std::this_thread::sleep_for(1min);
        return Status();
      },
      kBounds);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("takes too long"), std::string::npos) << status.message();
  EXPECT_LT(clock.now() - begin, 20s);
}

TEST(Trial, EndsWhatTakesTooMuchMemory) {
  const Status status = try_in_child(
      [] {
        std::vector<std::vector<char>> held;
        while (true) {
          held.emplace_back(1 << 20, 'x');
          std::this_thread::sleep_for(1ms);
        }
        return Status();
      },
      {.time = 20s, .bytes = std::size_t{32} << 20});
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("too much memory"), std::string::npos) << status.message();
}

TEST(Trial, ACrashIsARefusal) {
  const Status status = try_in_child([]() -> Status { std::_Exit(3); }, kBounds);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace outrider
