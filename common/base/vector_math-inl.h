// exp, log, tanh and erf on vectors of f32, the same bits on every CPU (docs/row-invariance.md).
//
// Built only from IEEE operations (add, multiply, divide: correctly rounded everywhere) and
// explicit fused multiply-add. Each lane is computed independently, so the vector's width has no
// effect. The largest errors are in tests/unit/common/base/vector_math_test.cc. For division and
// square root use Highway's Div and Sqrt, which are correctly rounded; never use its
// approximations.
//
// Subnormal results are kept: our code never sets flush-to-zero. A NaN gives some NaN.
//
// SPDX-License-Identifier: Apache-2.0

// Included once per instruction set (see vector_targets.h), so no #pragma once.
#if defined(OUTRIDER_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OUTRIDER_VECTOR_MATH_INL_H_
#undef OUTRIDER_VECTOR_MATH_INL_H_
#else
#define OUTRIDER_VECTOR_MATH_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "common/base/vector_targets.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE

namespace hn = hwy::HWY_NAMESPACE;

// c[0] + c[1] x + .. by Horner's rule, fused. The coefficients come lowest first.
template <class D, class V>
HWY_INLINE V polynomial(D d, V /*x*/, float c) {
  return hn::Set(d, c);
}
template <class D, class V, class... Rest>
HWY_INLINE V polynomial(D d, V x, float c, Rest... rest) {
  return hn::MulAdd(polynomial(d, x, rest...), x, hn::Set(d, c));
}

// e^x. Overflows to infinity above 88.73, underflows through subnormals to 0 below -103.97.
template <class D, class V>
HWY_INLINE V vector_exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  // Beyond these bounds the result is infinite or 0 for every x. The order of the operands keeps
  // NaN out of the conversion to integer.
  const V bounded = hn::IfThenElse(
      hn::Gt(x, hn::Set(d, -105.0f)),
      hn::IfThenElse(hn::Lt(x, hn::Set(d, 89.5f)), x, hn::Set(d, 89.5f)), hn::Set(d, -105.0f));
  // x = n ln 2 + r, |r| <= ln 2 / 2; ln 2 in two parts, the first of 13 bits.
  const V n = hn::Round(hn::Mul(bounded, hn::Set(d, 0x1.715476p+0f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62ep-1f), bounded);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.0bfbe8p-15f), r);
  // e^r = 1 + r + r^2 P(r); P is minimax, relative error 3.1e-9.
  const V p = polynomial(d, r, 0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558f2p-5f, 0x1.1239d4p-7f,
                         0x1.6a2448p-10f);
  const V value = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
  // 2^n as two factors, each a normal number, so that a subnormal result is rounded once.
  const auto exponent = hn::ConvertTo(di, n);
  const auto first = hn::ShiftRight<1>(exponent);
  const auto bias = hn::Set(di, 127);
  const V scale_1 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(first, bias)));
  const V scale_2 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(exponent, first), bias)));
  const V result = hn::Mul(hn::Mul(value, scale_1), scale_2);
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

// Natural logarithm. log(0) = -infinity, log(infinity) = infinity, log(x < 0) = NaN.
template <class D, class V>
HWY_INLINE V vector_log(D d, V x) {
  const hn::RebindToSigned<D> di;
  // Subnormals are made normal first.
  const auto tiny = hn::Lt(x, hn::Set(d, 0x1p-126f));
  const V normal = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 0x1p25f)), x);
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)).
  const auto bits = hn::BitCast(di, normal);
  const auto shifted = hn::Sub(bits, hn::Set(di, 0x3f3504f3));
  const auto exponent = hn::ShiftRight<23>(shifted);
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
  const V e = hn::Sub(hn::ConvertTo(d, exponent), hn::IfThenElseZero(tiny, hn::Set(d, 25.0f)));
  // log(1 + f) = f - (f^2/2 - s (f^2/2 + z R(z))), s = f / (2 + f), z = s^2; R is minimax.
  const V f = hn::Sub(m, hn::Set(d, 1.0f));
  const V s = hn::Div(f, hn::Add(f, hn::Set(d, 2.0f)));
  const V z = hn::Mul(s, s);
  const V r =
      hn::Mul(z, polynomial(d, z, 0x1.555556p-1f, 0x1.9999ecp-2f, 0x1.245c0ep-2f, 0x1.ddd848p-3f));
  const V half_square = hn::Mul(hn::Mul(f, f), hn::Set(d, 0.5f));
  const V low = hn::MulAdd(s, hn::Add(half_square, r), hn::Mul(e, hn::Set(d, 0x1.0bfbe8p-15f)));
  const V log = hn::MulAdd(e, hn::Set(d, 0x1.62ep-1f), hn::Sub(f, hn::Sub(half_square, low)));
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  const V zero = hn::Zero(d);
  const V finite = hn::IfThenElse(hn::Eq(x, infinity), infinity, log);
  return hn::IfThenElse(hn::Gt(x, zero), finite,
                        hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), nan));
}

// Hyperbolic tangent.
template <class D, class V>
HWY_INLINE V vector_tanh(D d, V x) {
  const V size = hn::Abs(x);
  const V square = hn::Mul(x, x);
  // Near 0: x + x^3 P(x^2), P minimax, relative error 4.2e-9. Else 1 - 2 / (e^2x + 1).
  const V p = polynomial(d, square, -0x1.555534p-2f, 0x1.110768p-3f, -0x1.b84448p-5f,
                         0x1.5256d8p-6f, -0x1.76ac1ap-8f);
  const V near = hn::MulAdd(hn::Mul(square, p), x, x);
  const V one = hn::Set(d, 1.0f);
  const V grown = hn::Add(vector_exp(d, hn::Add(size, size)), one);
  const V far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), grown));
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625f)), near, hn::CopySign(far, x));
}

// The error function.
template <class D, class V>
HWY_INLINE V vector_erf(D d, V x) {
  const V size = hn::Abs(x);
  const V square = hn::Mul(x, x);
  const V one = hn::Set(d, 1.0f);
  // Below 1: x P(x^2), P minimax, error 1.2e-9. Else 1 - e^(-x^2) t Q(t), t = 1 / (1 + x/2), Q
  // minimax up to 4.2, where the result is 1.
  const V p = polynomial(d, square, 0x1.20dd74p+0f, -0x1.81273ep-2f, 0x1.ce2d2p-4f, -0x1.b7fbb4p-6f,
                         0x1.5419f6p-8f, -0x1.a485ecp-11f, 0x1.4ae4dp-14f);
  const V near = hn::Mul(x, p);
  const V t = hn::Div(one, hn::MulAdd(size, hn::Set(d, 0.5f), one));
  const V q = polynomial(d, t, 0x1.21c6fep-2f, 0x1.146dd2p-2f, 0x1.453a2p-2f, -0x1.9e6182p-5f,
                         0x1.03f076p-1f, -0x1.c18baep-2f, 0x1.c84936p-4f);
  const V rest = hn::Mul(hn::Mul(vector_exp(d, hn::Neg(square)), t), q);
  const V far = hn::CopySign(hn::Sub(one, rest), x);
  return hn::IfThenElse(hn::Lt(size, one), near, far);
}

#endif  // OUTRIDER_VECTOR_CODE
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
