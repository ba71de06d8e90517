// Which vector instructions the process uses, and how a source file is compiled for each of them
// (docs/row-invariance.md).
//
// Highway compiles a file once per instruction set. Only sets with fused multiply-add are used, and
// every function gives the same bits on all of them, so the choice affects speed only. Include this
// header before Highway's. A file with vector code looks like this:
//
//   #include "common/base/vector_targets.h"
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "common/folder/file.cc"
//   #include "hwy/foreach_target.h"  // compiles this file again for each instruction set
//   #include "hwy/highway.h"
//   #include "common/base/vector_math-inl.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace outrider::HWY_NAMESPACE {
//   #if OUTRIDER_VECTOR_CODE
//   void square(std::span<float> x) { .. }
//   #endif
//   }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   void square(VectorTarget target, std::span<float> x) {
//     OUTRIDER_VECTOR_FUNCTION(target, square)(x);
//   }
//   #endif
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "common/base/status.h"

#ifdef HWY_HIGHWAY_INCLUDED
#error "include common/base/vector_targets.h before hwy/highway.h"
#endif

// Sets without fused multiply-add would give other bits; SVE's vector length is unknown at compile
// time.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

// Whether the current compilation of the file is for a set that we use. Highway always compiles for
// plain x86-64 too; that compilation contains no vector code.
#define OUTRIDER_VECTOR_CODE \
  (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON)

#if defined(__x86_64__)
#define OUTRIDER_VECTOR_FUNCTION(target, name) \
  ((target) == ::outrider::VectorTarget::kAvx512 ? &N_AVX3::name : &N_AVX2::name)
#elif defined(__aarch64__)
#define OUTRIDER_VECTOR_FUNCTION(target, name) (static_cast<void>(target), &N_NEON::name)
#else
#error "Outrider runs on x86-64 with AVX2 and FMA, and on 64-bit Arm"
#endif

namespace outrider {

// kAvx2Vnni and kNeonDot are kAvx2 and kNeon plus products of four bytes (AVX-VNNI, SDOT).
// kNeonI8mm has products of small byte matrices, too.
enum class VectorTarget { kAvx2, kAvx2Vnni, kAvx512, kNeon, kNeonDot, kNeonI8mm };

// "avx2", "avx2vnni", "avx512", "neon", "neondot", "neoni8mm": the values of --kernel.
std::string_view to_string(VectorTarget target);

// The targets that this CPU can run, fastest first. Empty on an x86-64 CPU without AVX2 and FMA.
std::vector<VectorTarget> available_vector_targets();

// The named target, or the fastest for "auto". INVALID_ARGUMENT for an unknown name,
// FAILED_PRECONDITION where this CPU lacks it.
Result<VectorTarget> find_vector_target(std::string_view name);

// The fastest target, found once. For code that runs after start-up has checked
// find_vector_target("auto").
VectorTarget best_vector_target();

}  // namespace outrider
