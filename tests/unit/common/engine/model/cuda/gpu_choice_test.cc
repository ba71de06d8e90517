// Why no GPU can be taken is said in words, with a remedy. SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/gpu_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

FoundGpus two_gpus() {
  return {.runtime = 13000, .driver = 13020, .reason = "", .gpus = {{"H100", 90}, {"H100", 90}}};
}

std::string refusal(const FoundGpus& found, const std::vector<int>& numbers = {0}) {
  const Status status = check_gpus(found, numbers);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("device cuda: "), HasSubstr("Remedy: ")));
  return status.message();
}

TEST(GpuChoiceTest, GpusThatAreThereAreTaken) {
  EXPECT_TRUE(check_gpus(two_gpus(), std::vector{0}).ok());
  EXPECT_TRUE(check_gpus(two_gpus(), std::vector{1, 0}).ok());
}

TEST(GpuChoiceTest, EachReasonIsNamed) {
  FoundGpus found = two_gpus();
  EXPECT_THAT(refusal(found, {2}),
              HasSubstr("--gpus 2: this machine has no GPU of that number. Remedy: 0 to 1"));
  EXPECT_THAT(refusal(found, {0, -1}), HasSubstr("--gpus -1"));
  found.gpus[1] = {"A100", 80};
  EXPECT_THAT(refusal(found, {0, 1}), HasSubstr("A100 and H100 are not alike"));
  EXPECT_TRUE(check_gpus(found, std::vector{1}).ok());
  found.gpus[1] = {"V100", 70};
  EXPECT_THAT(refusal(found, {1}), HasSubstr("V100 has compute capability 7.0, below 8.0"));
  found.gpus.pop_back();
  EXPECT_THAT(refusal(found, {1}), HasSubstr("Remedy: 0, the only one"));
  found.gpus.clear();
  EXPECT_THAT(refusal(found), HasSubstr("the driver shows no GPU"));
  found.reason = "cudaErrorNotPermitted";
  EXPECT_THAT(refusal(found), HasSubstr("no GPU can be used (cudaErrorNotPermitted)"));
  found.driver = 12080;
  EXPECT_THAT(refusal(found),
              HasSubstr("too old: it runs CUDA 12.8, and this program has CUDA 13.0"));
  found.driver = 0;
  EXPECT_THAT(refusal(found), AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("CUDA 13.0")));
}

}  // namespace
}  // namespace outrider::cuda
