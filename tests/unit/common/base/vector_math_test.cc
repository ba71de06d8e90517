// SPDX-License-Identifier: Apache-2.0
#include "common/base/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/unit/common/base/vector_math_test.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/base/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE

// count: a multiple of 16.
void exp_all(const float* x, float* y, std::size_t count) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(vector_exp(d, hn::LoadU(d, x + i)), d, y + i);
  }
}

void log_all(const float* x, float* y, std::size_t count) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(vector_log(d, hn::LoadU(d, x + i)), d, y + i);
  }
}

void tanh_all(const float* x, float* y, std::size_t count) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(vector_tanh(d, hn::LoadU(d, x + i)), d, y + i);
  }
}

void erf_all(const float* x, float* y, std::size_t count) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(vector_erf(d, hn::LoadU(d, x + i)), d, y + i);
  }
}

#endif
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace outrider {
namespace {

using Function = void (*)(const float*, float*, std::size_t);

std::vector<float> run(Function function, std::vector<float> x) {
  const std::size_t count = x.size();
  x.resize((count + 15) / 16 * 16, 1.0f);
  std::vector<float> y(x.size());
  function(x.data(), y.data(), x.size());
  y.resize(count);
  return y;
}

// Every `step`-th f32 from first to last, both of one sign.
std::vector<float> sweep(float first, float last, std::uint32_t step) {
  std::vector<float> x;
  const std::uint32_t end = std::bit_cast<std::uint32_t>(last);
  for (std::uint32_t bits = std::bit_cast<std::uint32_t>(first); bits <= end; bits += step) {
    x.push_back(std::bit_cast<float>(bits));
  }
  return x;
}

// |y - exact| in units of the last place of an f32 near `exact`.
double error_in_ulps(float y, double exact) {
  const double size = std::max(std::abs(exact), 0x1p-126);
  return std::abs(y - exact) / std::ldexp(1.0, std::ilogb(size) - 23);
}

std::uint64_t hash(const std::vector<float>& values) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const float value : values) {
    h = (h ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
  }
  return h;
}

std::vector<float> exp_arguments() {
  std::vector<float> x = sweep(-1e-10f, -104.0f, 1999);
  const std::vector<float> positive = sweep(1e-10f, 88.7f, 1999);
  x.insert(x.end(), positive.begin(), positive.end());
  return x;
}

class VectorMath : public ::testing::TestWithParam<VectorTarget> {
 protected:
  std::vector<float> exp(const std::vector<float>& x) {
    return run(OUTRIDER_VECTOR_FUNCTION(GetParam(), exp_all), x);
  }
  std::vector<float> log(const std::vector<float>& x) {
    return run(OUTRIDER_VECTOR_FUNCTION(GetParam(), log_all), x);
  }
  std::vector<float> tanh(const std::vector<float>& x) {
    return run(OUTRIDER_VECTOR_FUNCTION(GetParam(), tanh_all), x);
  }
  std::vector<float> erf(const std::vector<float>& x) {
    return run(OUTRIDER_VECTOR_FUNCTION(GetParam(), erf_all), x);
  }
};

TEST_P(VectorMath, ExpIsWithinOneUnitInTheLastPlace) {
  const std::vector<float> x = exp_arguments();
  const std::vector<float> y = exp(x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, error_in_ulps(y[i], std::exp(static_cast<double>(x[i]))));
  }
  EXPECT_LT(worst, 1.0);
}

TEST_P(VectorMath, ExpEndsInInfinityAndZero) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> y = exp({0.0f, -0.0f, 89.0f, kInfinity, -104.5f, -kInfinity, NAN});
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_EQ(y[2], kInfinity);
  EXPECT_EQ(y[3], kInfinity);
  EXPECT_EQ(y[4], 0.0f);
  EXPECT_EQ(y[5], 0.0f);
  EXPECT_TRUE(std::isnan(y[6]));
}

TEST_P(VectorMath, LogIsWithinOneUnitInTheLastPlace) {
  const std::vector<float> x =
      sweep(std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max(), 1999);
  const std::vector<float> y = log(x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, error_in_ulps(y[i], std::log(static_cast<double>(x[i]))));
  }
  EXPECT_LT(worst, 1.0);
}

TEST_P(VectorMath, LogAnswersForItsWholeDomain) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> y = log({1.0f, 0.0f, -0.0f, kInfinity, -1.0f, NAN});
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], -kInfinity);
  EXPECT_EQ(y[2], -kInfinity);
  EXPECT_EQ(y[3], kInfinity);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_TRUE(std::isnan(y[5]));
}

TEST_P(VectorMath, TanhAndErfAreWithinThreeUnitsInTheLastPlace) {
  for (const float sign : {1.0f, -1.0f}) {
    const std::vector<float> x = sweep(sign * 1e-10f, sign * 100.0f, 1999);
    const std::vector<float> tanhs = tanh(x), erfs = erf(x);
    double worst_tanh = 0, worst_erf = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      worst_tanh = std::max(worst_tanh, error_in_ulps(tanhs[i], std::tanh(double{x[i]})));
      worst_erf = std::max(worst_erf, error_in_ulps(erfs[i], std::erf(double{x[i]})));
    }
    EXPECT_LT(worst_tanh, 3.0);
    EXPECT_LT(worst_erf, 3.0);
  }
}

TEST_P(VectorMath, TanhAndErfEndInOne) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const auto& y :
       {tanh({0.0f, kInfinity, -kInfinity, NAN}), erf({0.0f, kInfinity, -kInfinity, NAN})}) {
    EXPECT_EQ(y[0], 0.0f);
    EXPECT_EQ(y[1], 1.0f);
    EXPECT_EQ(y[2], -1.0f);
    EXPECT_TRUE(std::isnan(y[3]));
  }
}

// The expected numbers were equal on AVX2, AVX-512 and NEON when they were recorded.
TEST_P(VectorMath, BitsAreThoseOfEveryOtherCpu) {
  EXPECT_EQ(hash(exp(exp_arguments())), 11174572391968801946u);
  EXPECT_EQ(hash(log(sweep(1e-40f, 3e38f, 1999))), 11318389174971896764u);
  // These two were recorded on AVX2 and AVX-512.
  EXPECT_EQ(hash(tanh(exp_arguments())), 10655008008215837615u);
  EXPECT_EQ(hash(erf(exp_arguments())), 8158170480074395015u);
}

INSTANTIATE_TEST_SUITE_P(EachTarget, VectorMath, ::testing::ValuesIn(available_vector_targets()),
                         [](const auto& target) { return std::string(to_string(target.param)); });

TEST(VectorTargets, AreFoundByName) {
  const Result<VectorTarget> best = find_vector_target("auto");
  ASSERT_TRUE(best.ok()) << best.status().to_string();
  EXPECT_EQ(*best, best_vector_target());
  for (const VectorTarget target : available_vector_targets()) {
    EXPECT_EQ(*find_vector_target(to_string(target)), target);
  }
}

TEST(VectorTargets, RefuseWhatTheCpuLacksAndUnknownNames) {
#if defined(__x86_64__)
  EXPECT_EQ(find_vector_target("neon").status().code(), StatusCode::kFailedPrecondition);
#else
  EXPECT_EQ(find_vector_target("avx2").status().code(), StatusCode::kFailedPrecondition);
#endif
  EXPECT_EQ(find_vector_target("sse2").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
#endif  // HWY_ONCE
