// Elementary functions of f64 with the same bits on every CPU. They use only IEEE add, multiply and
// divide, none of them fused, so that compiler, instruction set and C library do not matter. Errors
// are a few units in the last place; results are meant to be rounded to f32.
//
// For values computed once per row or per model; vectors of f32 have vector_math-inl.h. Thread
// rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace outrider {

struct SinCos {
  double sin;
  double cos;
};

// |x| <= 2^20.
SinCos portable_sin_cos(double x);

// |x| <= 700.
double portable_exp(double x);

// x > 0, normal.
double portable_log(double x);

// base^exponent, base > 0, within the limits of portable_exp() and portable_log().
double portable_power(double base, double exponent);

}  // namespace outrider
