// SPDX-License-Identifier: Apache-2.0
#include "common/base/portable_math.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace outrider {
namespace {

constexpr double kLn2High = 0x1.62e42fefp-1;  // 33 bits: its product with an exponent is exact
constexpr double kLn2Low = 0x1.473de6af278edp-34;

// Adding and taking away rounds to the nearest integer, for |x| < 2^51.
constexpr double kRound = 0x1.8p52;

double round_to_integer(double x) {
  return (x + kRound) - kRound;
}

// c[0] + c[1] x + .. by Horner's rule.
template <std::size_t kCount>
double polynomial(double x, const double (&c)[kCount]) {
  double value = c[kCount - 1];
  for (std::size_t i = kCount - 1; i > 0; --i) value = value * x + c[i - 1];
  return value;
}

// sin and cos on [-pi/4, pi/4]; the polynomials are minimax.
double kernel_sin(double r) {
  static constexpr double kSin[] = {-0.166666666666666646,    0.00833333333333095036,
                                    -0.000198412698367610044, 2.75573161036567658e-6,
                                    -2.505113204980611e-8,    1.5918142585521653e-10};
  const double z = r * r;
  return r + r * z * polynomial(z, kSin);
}

double kernel_cos(double r) {
  static constexpr double kCos[] = {0.0416666666666666654,    -0.00138888888888873983,
                                    0.0000248015872987670385, -2.75573172723436698e-7,
                                    2.08761463822675322e-9,   -1.1382639815649057e-11};
  const double z = r * r;
  return 1.0 - (0.5 * z - z * z * polynomial(z, kCos));
}

}  // namespace

SinCos portable_sin_cos(double x) {
  // pi/2 in three parts; the first two have 32 bits, so their products with n < 2^20 are exact.
  constexpr double kHalfPi1 = 0x1.921fb544p+0;
  constexpr double kHalfPi2 = 0x1.0b4611a6p-34;
  constexpr double kHalfPi3 = 0x1.3198a2e037073p-69;
  const double n = round_to_integer(x * 0x1.45f306dc9c883p-1);
  const double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
  const double s = kernel_sin(r);
  const double c = kernel_cos(r);
  switch (static_cast<std::int64_t>(n) & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

double portable_exp(double x) {
  // (e^r - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2], minimax.
  static constexpr double kExp[] = {0.5,
                                    0.16666666666666671,
                                    0.0416666666666666838,
                                    0.00833333333332614059,
                                    0.00138888888888743979,
                                    0.000198412698748013126,
                                    0.000024801587347343826,
                                    2.75572554248806543e-6,
                                    2.75572529059684361e-7,
                                    2.51052066865935487e-8,
                                    2.09215921420447882e-9};
  const double n = round_to_integer(x * 0x1.71547652b82fep+0);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  const double value = 1.0 + (r + r * r * polynomial(r, kExp));
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto exponent = static_cast<std::uint64_t>(static_cast<std::int64_t>(n)) << 52;
  return std::bit_cast<double>(bits + exponent);
}

double portable_log(double x) {
  // (2 atanh(s) - 2 s) / s^3 in z = s^2, minimax for x's mantissa in [sqrt(1/2), sqrt(2)).
  static constexpr double kLog[] = {
      0.666666666666666667, 0.399999999999999924, 0.285714285714354175,
      0.222222222198428479, 0.181818185957775156, 0.153845749786045978,
      0.133356448426782902, 0.116879945769969056, 0.118830934879645089};
  const auto bits = std::bit_cast<std::int64_t>(x);
  const std::int64_t exponent = (bits - 0x3fe6a09e667f3bcd) >> 52;
  const double m = std::bit_cast<double>(bits - exponent * (std::int64_t{1} << 52));
  const double e = static_cast<double>(exponent);
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double half_square = 0.5 * f * f;
  const double low = s * (half_square + z * polynomial(z, kLog)) + e * kLn2Low;
  return e * kLn2High + (f - (half_square - low));
}

double portable_power(double base, double exponent) {
  return portable_exp(exponent * portable_log(base));
}

}  // namespace outrider
