// SPDX-License-Identifier: Apache-2.0
#include "common/base/vector_targets.h"

#if defined(__x86_64__)
#include <cpuid.h>
#else
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <string>

namespace outrider {
namespace {

constexpr VectorTarget kAllTargets[] = {VectorTarget::kAvx2,    VectorTarget::kAvx2Vnni,
                                        VectorTarget::kAvx512,  VectorTarget::kNeon,
                                        VectorTarget::kNeonDot, VectorTarget::kNeonI8mm};

#if defined(__x86_64__)
// AVX-VNNI, bit 4 of EAX of CPUID's leaf 7.1; GCC 12 has no name for it.
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 16) != 0;
}
#endif

}  // namespace

std::string_view to_string(VectorTarget target) {
  switch (target) {
    case VectorTarget::kAvx2:
      return "avx2";
    case VectorTarget::kAvx2Vnni:
      return "avx2vnni";
    case VectorTarget::kAvx512:
      return "avx512";
    case VectorTarget::kNeon:
      return "neon";
    case VectorTarget::kNeonDot:
      return "neondot";
    case VectorTarget::kNeonI8mm:
      return "neoni8mm";
  }
  return "unknown";
}

std::vector<VectorTarget> available_vector_targets() {
  std::vector<VectorTarget> targets;
#if defined(__x86_64__)
  // These check the operating system too: it must save the wide registers.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi2")) {
    return targets;
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    targets.push_back(VectorTarget::kAvx512);
  }
  if (has_avx_vnni()) targets.push_back(VectorTarget::kAvx2Vnni);
  targets.push_back(VectorTarget::kAvx2);
#else
  const bool has_dot = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  if (has_dot && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0) {
    targets.push_back(VectorTarget::kNeonI8mm);
  }
  if (has_dot) targets.push_back(VectorTarget::kNeonDot);
  targets.push_back(VectorTarget::kNeon);
#endif
  return targets;
}

Result<VectorTarget> find_vector_target(std::string_view name) {
  const std::vector<VectorTarget> available = available_vector_targets();
  if (available.empty()) {
    return failed_precondition(
        "this CPU lacks AVX2 or FMA, which Outrider's kernels need. Remedy: use an x86-64 CPU of "
        "2013 or later (in a virtual machine, pass the host's CPU features through), or 64-bit "
        "Arm");
  }
  if (name == "auto") return available.front();
  for (const VectorTarget target : kAllTargets) {
    if (to_string(target) != name) continue;
    if (std::find(available.begin(), available.end(), target) != available.end()) return target;
    return failed_precondition("kernel '" + std::string(name) +
                               "' does not run on this CPU. Remedy: --kernel auto picks '" +
                               std::string(to_string(available.front())) + "'");
  }
  return invalid_argument(
      "kernel '" + std::string(name) +
      "' is unknown. Remedy: use auto, avx2, avx2vnni, avx512, neon, neondot or neoni8mm");
}

VectorTarget best_vector_target() {
  static const VectorTarget best = [] {
    const std::vector<VectorTarget> available = available_vector_targets();
    OUTRIDER_CHECK(!available.empty());
    return available.front();
  }();
  return best;
}

}  // namespace outrider
