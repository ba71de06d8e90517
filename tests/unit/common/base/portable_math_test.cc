// SPDX-License-Identifier: Apache-2.0
#include "common/base/portable_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace outrider {
namespace {

TEST(PortableMath, SinAndCosAgreeWithTheLibraryOverAllRopeAngles) {
  for (int i = -200000; i <= 200000; ++i) {
    const auto x = static_cast<double>(static_cast<float>(i) * 0.7234567f);
    const SinCos ours = portable_sin_cos(x);
    ASSERT_NEAR(ours.sin, std::sin(x), 3e-16) << x;
    ASSERT_NEAR(ours.cos, std::cos(x), 3e-16) << x;
  }
}

TEST(PortableMath, ExpAndLogAgreeWithTheLibrary) {
  for (int i = -7000; i <= 7000; ++i) {
    const double x = i * 0.1;
    ASSERT_NEAR(portable_exp(x) / std::exp(x), 1.0, 4e-16) << x;
    const double y = std::exp(x) * 1.2345;
    ASSERT_NEAR(portable_log(y), std::log(y), 4e-16 * std::max(1.0, std::abs(std::log(y)))) << y;
  }
  EXPECT_EQ(portable_exp(0.0), 1.0);
  EXPECT_EQ(portable_log(1.0), 0.0);
}

TEST(PortableMath, PowersRoundToTheNearestF32) {
  for (int i = 0; i < 128; ++i) {
    const double exponent = static_cast<float>(i) / 128.0f;
    EXPECT_EQ(static_cast<float>(portable_power(10000.0, exponent)),
              static_cast<float>(std::pow(10000.0, exponent)));
  }
}

// The expected numbers were equal on x86-64 and 64-bit Arm when they were recorded.
TEST(PortableMath, BitsAreThoseOfEveryOtherCpu) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto take = [&](double x) {
    hash = (hash ^ std::bit_cast<std::uint64_t>(x)) * 0x100000001b3;
  };
  for (int i = 1; i <= 10000; ++i) {
    const SinCos pair = portable_sin_cos(i * 1.37);
    take(pair.sin);
    take(pair.cos);
    take(portable_power(i * 3.1, 0.73));
  }
  EXPECT_EQ(hash, 10753897338951498272u);
}

}  // namespace
}  // namespace outrider
