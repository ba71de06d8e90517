// SPDX-License-Identifier: Apache-2.0
#include "common/base/free_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(FreeMemory, TheTightestControlGroupAboveTheProcessDecides) {
  const TestDirectory root;
  const std::string cgroup = root.path() + "/sys/fs/cgroup";
  write(root.path() + "/proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 8388608 kB\n");
  EXPECT_EQ(free_memory(root.path()), 8192 * kMiB);
  write(root.path() + "/proc/self/cgroup", "0::/pods/robot\n");
  write(root.path() + "/proc/self/mountinfo",
        "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  write(cgroup + "/pods/robot/memory.max", "max\n");
  write(cgroup + "/pods/robot/memory.current", std::to_string(900 * kMiB));
  EXPECT_EQ(free_memory(root.path()), 8192 * kMiB);
  write(cgroup + "/pods/memory.max", std::to_string(4096 * kMiB));
  write(cgroup + "/pods/memory.current", std::to_string(1096 * kMiB));
  write(cgroup + "/pods/memory.stat", "anon 5\ninactive_file " + std::to_string(96 * kMiB));
  EXPECT_EQ(free_memory(root.path()), 3096 * kMiB) << "its page cache can be taken back";
  write(cgroup + "/pods/memory.current", std::to_string(9000 * kMiB));
  EXPECT_EQ(free_memory(root.path()), 0);
}

TEST(FreeMemory, ReadsTheOldHierarchyToo) {
  const TestDirectory root;
  const std::string group = root.path() + "/sys/fs/cgroup/memory/robot";
  write(root.path() + "/proc/meminfo", "MemAvailable: 8388608 kB\n");
  write(root.path() + "/proc/self/cgroup", "4:cpu:/robot\n3:memory:/robot\n");
  write(root.path() + "/proc/self/mountinfo",
        "31 22 0:27 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n");
  write(group + "/memory.limit_in_bytes", std::to_string(2048 * kMiB));
  write(group + "/memory.usage_in_bytes", std::to_string(48 * kMiB));
  EXPECT_EQ(free_memory(root.path()), 2000 * kMiB);
}

}  // namespace
}  // namespace outrider
