// Shared by the kernels' tests: numbers that are equal on every machine, and a test of each
// instruction set.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/engine/model/cpu/kernels/kernels.h"

namespace outrider {

// Uniform in [-1, 1) with 16 random bits: the same on every machine, unlike std::distributions.
std::vector<float> random_values(std::size_t count, std::uint32_t seed);

// Continues from h, at first kHashStart.
inline constexpr std::uint64_t kHashStart = 0xcbf29ce484222325;
std::uint64_t hash(std::uint64_t h, const std::vector<float>& values);

class EachTargetTest : public ::testing::TestWithParam<VectorTarget> {
 protected:
  const Kernels& kernels() const { return kernels_for(GetParam()); }
};

inline std::string target_name(const ::testing::TestParamInfo<VectorTarget>& target) {
  return std::string(to_string(target.param));
}

}  // namespace outrider
