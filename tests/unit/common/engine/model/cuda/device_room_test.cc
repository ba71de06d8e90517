// An integrated GPU's memory is the machine's, and is counted once.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/device_room.h"

#include <gtest/gtest.h>

namespace outrider::cuda {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TEST(DeviceRoom, ACardsMemoryIsItsOwn) {
  const FreeMemory card{.on_device = 1000 * kMiB, .on_host = 10 * kMiB};
  EXPECT_EQ(free_bytes(card), 1000 * kMiB);
  EXPECT_EQ(room_for_kv(card), 900 * kMiB) << "the machine's has no part in it";
  EXPECT_EQ(words_of(card), "1000 MiB of the GPU's are free");
}

TEST(DeviceRoom, SharedMemoryIsTheMachinesLessWhatTheProgramNeeds) {
  // The driver leaves out the page cache; a control group may leave less than the driver knows.
  for (const std::int64_t driver : {300, 6000}) {
    const FreeMemory board{.on_device = driver * kMiB, .on_host = 4256 * kMiB, .is_shared = true};
    EXPECT_EQ(free_bytes(board), 4256 * kMiB);
    EXPECT_EQ(room_for_kv(board), 3600 * kMiB);
    EXPECT_EQ(words_of(board), "4256 MiB of the machine's, which the GPU shares, are free");
  }
}

TEST(DeviceRoom, AFullBoardHasNone) {
  const FreeMemory full{.on_device = 900 * kMiB, .on_host = 200 * kMiB, .is_shared = true};
  EXPECT_EQ(room_for_kv(full), 0);
}

TEST(DeviceRoom, MemoryThatIsGivenPageByPageHasNoBound) {
  EXPECT_EQ(room_for_kv({}), 0);
}

}  // namespace
}  // namespace outrider::cuda
