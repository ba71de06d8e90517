// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/byte_size.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(ByteSize, ReadsSizesAsPeopleWriteThem) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  EXPECT_EQ(parse_byte_size("0"), 0);
  EXPECT_EQ(parse_byte_size("12"), 12);
  EXPECT_EQ(parse_byte_size("4K"), 4096);
  EXPECT_EQ(parse_byte_size("500M"), 500 * kMiB);
  EXPECT_EQ(parse_byte_size("3G"), 3072 * kMiB);
  for (const char* bad : {"", "G", "-1", "1.5G", "1T", "1 G", "99999999999G", "0x10", "1GB"}) {
    EXPECT_EQ(parse_byte_size(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace outrider
