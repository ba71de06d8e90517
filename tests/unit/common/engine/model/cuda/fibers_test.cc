// The faults that fibers find: kernels that lack a barrier, wait for ever or write too far.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/fibers/fibers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <vector>

namespace outrider::fibers {
namespace {

constexpr unsigned kThreads = 96;

// Each thread writes a number and reads its neighbour's in another warp.
std::vector<int> exchange(bool has_barrier) {
  std::vector<int> seen(kThreads);
  run_grid({}, kThreads, kThreads * sizeof(int), [&] {
    auto* shared = reinterpret_cast<int*>(shared_memory());
    const unsigned me = thread_index();
    shared[me] = static_cast<int>(me) + 1000;
    if (has_barrier) sync_threads();
    seen[me] = shared[(me + 40) % kThreads];
  });
  return seen;
}

std::vector<int> neighbours() {
  std::vector<int> expected;
  for (unsigned i = 0; i < kThreads; ++i) {
    expected.push_back(static_cast<int>((i + 40) % kThreads) + 1000);
  }
  return expected;
}

TEST(FibersTest, ABarrierOrdersReadsBehindWrites) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    set_seed(seed);
    EXPECT_EQ(exchange(true), neighbours()) << seed;
  }
}

TEST(FibersTest, AMissingBarrierIsFoundByEverySeed) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    set_seed(seed);
    EXPECT_NE(exchange(false), neighbours()) << seed;
  }
}

TEST(FibersTest, ABarrierThatNotAllReachIsAnError) {
  set_seed(3);
  EXPECT_THROW(run_grid({}, kThreads, 0,
                        [] {
                          if (thread_index() != 5) sync_threads();
                        }),
               std::logic_error);
  EXPECT_EQ(exchange(true), neighbours()) << "the next grid runs";
}

TEST(FibersTest, AWarpOperationThatNotAllLanesReachIsAnError) {
  EXPECT_THROW(run_grid({}, 32, 0,
                        [] {
                          int mine = 0;
                          if (thread_index() != 5) meet_warp([](void* const*) {}, &mine);
                        }),
               std::logic_error);
}

TEST(FibersTest, WritesBehindSharedMemoryAreAnError) {
  EXPECT_THROW(run_grid({}, 32, 32, [] { shared_memory()[32] = std::byte{1}; }), std::logic_error);
}

TEST(FibersTest, ACopyIsThereOnlyAfterItsWait) {
  int late = 0;
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    set_seed(seed);
    const std::vector<int> from = {1, 2, 3, 4};
    run_grid({}, 32, 16, [&] {
      if (thread_index() > 0) return;
      int before = 0, after = 0;
      copy_async(shared_memory(), from.data(), 16);
      commit_copies();
      wait_copies(1);
      std::memcpy(&before, shared_memory() + 4, 4);
      wait_copies(0);
      std::memcpy(&after, shared_memory() + 4, 4);
      late += before != 2 ? 1 : 0;
      EXPECT_EQ(after, 2);
    });
  }
  EXPECT_GT(late, 5);
  EXPECT_LT(late, 35);
}

TEST(FibersTest, BlocksOfAGridComeWithTheirIndices) {
  set_seed(1);
  std::vector<int> visits(24);
  run_grid({2, 3, 4}, 32, 0, [&] {
    const Size at = block_index();
    if (thread_index() == 7) ++visits[at.x + 2 * (at.y + 3 * at.z)];
  });
  EXPECT_EQ(visits, std::vector<int>(24, 1));
}

}  // namespace
}  // namespace outrider::fibers
