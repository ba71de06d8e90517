// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/memory_plan.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace outrider {
namespace {

class MemoryLimitTest : public testing::Test {
 protected:
  MemoryLimitTest() { std::filesystem::remove_all(root_); }
  ~MemoryLimitTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = root_ / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  std::optional<std::uint64_t> limit() { return memory_limit(root_ / "own", root_); }

  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / "memory_limit_test";
};

TEST_F(MemoryLimitTest, OfTheFirstVersion) {
  write("own", "5:cpu:/a\n4:memory:/a/b\n");
  write("memory/a/b/memory.limit_in_bytes", "700000\n");
  EXPECT_EQ(limit(), 700000u);
}

TEST_F(MemoryLimitTest, TheLeastOfThoseAround) {
  write("own", "0::/a/b\n");
  write("a/b/memory.max", "max\n");
  write("a/memory.max", "5000\n");
  write("memory.max", "9000\n");
  EXPECT_EQ(limit(), 5000u);
}

TEST_F(MemoryLimitTest, NoneWhereThereIsNone) {
  EXPECT_EQ(limit(), std::nullopt);
  write("own", "4:memory:/\nnonsense\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(), std::nullopt);
}

}  // namespace
}  // namespace outrider
