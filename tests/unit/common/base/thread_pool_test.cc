// SPDX-License-Identifier: Apache-2.0
#include "common/base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace outrider {
namespace {

// The cores that the calling thread may use.
std::set<int> own_cores() {
  cpu_set_t set;
  std::set<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.insert(core);
  }
  return cores;
}

// The sets of cores on which parts of loops run. computes: the pool's caller is a compute thread.
std::set<std::set<int>> places(int threads, bool computes) {
  std::set<std::set<int>> found;
  std::mutex mu;
  std::thread caller([&] {
    if (computes) begin_compute_thread();
    ThreadPool pool(threads);
    for (int loop = 0; loop < 50; ++loop) {
      pool.parallel_for(64, 1, [&](std::int64_t, std::int64_t) {
        const std::set<int> cores = own_cores();
        const std::lock_guard lock(mu);
        found.insert(cores);
      });
    }
  });
  caller.join();
  return found;
}

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

TEST(ComputeThread, HasACoreOfItsOwnAndSoHasItsPool) {
  const std::vector<int> cores = usable_cores();
  ASSERT_FALSE(cores.empty());
  if (cores.size() == 1) GTEST_SKIP() << "one core: nothing to spread";
  for (const std::set<int>& place : places(static_cast<int>(cores.size()), true)) {
    EXPECT_EQ(place.size(), 1u);
  }
}

TEST(ComputeThread, APoolOfAnotherSizeGoesWhereItLikes) {
  const std::set<int> all = own_cores();
  if (all.size() < 2) GTEST_SKIP() << "one core: nothing to spread";
  const int more = static_cast<int>(all.size()) + 1;
  EXPECT_EQ(places(more, true), std::set<std::set<int>>{all});
}

TEST(ComputeThread, AnotherCallersPoolGoesWhereItLikes) {
  const std::set<int> all = own_cores();
  EXPECT_EQ(places(static_cast<int>(all.size()), false), std::set<std::set<int>>{all});
  EXPECT_EQ(own_cores(), all) << "and so does who asked";
}

}  // namespace
}  // namespace outrider
