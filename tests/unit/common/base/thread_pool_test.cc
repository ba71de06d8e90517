// SPDX-License-Identifier: Apache-2.0
#include "common/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace outrider {
namespace {

TEST(ThreadPool, EveryIndexIsVisitedExactlyOnce) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (std::int64_t count : {0, 1, 2, 7, 64, 1001}) {
      for (std::int64_t grain : {1, 4, 100}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
        pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) visits[static_cast<std::size_t>(i)]++;
        });
        for (const auto& v : visits) ASSERT_EQ(v.load(), 1) << threads << " " << count;
      }
    }
  }
}

TEST(ThreadPool, PartsBeginAtMultiplesOfTheGrain) {
  ThreadPool pool(3);
  std::atomic<int> misaligned{0};
  pool.parallel_for(1000, 16, [&](std::int64_t begin, std::int64_t) {
    if (begin % 16 != 0) misaligned++;
  });
  EXPECT_EQ(misaligned.load(), 0);
}

TEST(ThreadPool, ManyShortLoopsInARowAllComplete) {
  ThreadPool pool(2);
  std::int64_t total = 0;
  for (int round = 0; round < 20000; ++round) {
    std::atomic<std::int64_t> sum{0};
    pool.parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sum += i;
    });
    total += sum.load();
  }
  EXPECT_EQ(total, std::int64_t{20000} * 28);
}

}  // namespace
}  // namespace outrider
