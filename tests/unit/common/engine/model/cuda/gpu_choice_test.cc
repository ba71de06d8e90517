// Why no GPU can be taken is said in words, with a remedy. SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/gpu_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

FoundGpus two_gpus() {
  return {.driver = 13020, .reason = "", .gpus = {{"H100", 90}, {"H100", 90}}};
}

constexpr GpuCode kMade[] = {{80, 13000}, {87, 12060}, {90, 13000}, {110, 13000}};

Status check(const FoundGpus& found, const std::vector<int>& numbers) {
  return check_gpus(found, numbers, kMade);
}

std::string refusal(const FoundGpus& found, const std::vector<int>& numbers = {0}) {
  const Status status = check(found, numbers);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("device cuda: "), HasSubstr("Remedy: ")));
  return status.message();
}

TEST(GpuChoiceTest, GpusThatAreThereAreTaken) {
  EXPECT_TRUE(check(two_gpus(), {0}).ok());
  EXPECT_TRUE(check(two_gpus(), {1, 0}).ok());
}

TEST(GpuChoiceTest, EachReasonIsNamed) {
  FoundGpus found = two_gpus();
  EXPECT_THAT(refusal(found, {2}),
              HasSubstr("--gpus 2: this machine has no GPU of that number. Remedy: 0 to 1"));
  EXPECT_THAT(refusal(found, {0, -1}), HasSubstr("--gpus -1"));
  found.gpus[1] = {"A100", 80};
  EXPECT_THAT(refusal(found, {0, 1}), HasSubstr("A100 and H100 are not alike"));
  EXPECT_TRUE(check(found, {1}).ok());
  found.gpus[1] = {"V100", 70};
  EXPECT_THAT(refusal(found, {1}), HasSubstr("V100 has compute capability 7.0, below 8.0"));
  found.gpus[1] = {"B200", 100};
  EXPECT_THAT(refusal(found, {1}),
              HasSubstr("B200 has compute capability 10.0, and this program has machine code for "
                        "sm_80, sm_87, sm_90, sm_110 only"));
  found.gpus.pop_back();
  EXPECT_THAT(refusal(found, {1}), HasSubstr("Remedy: 0, the only one"));
  found.gpus.clear();
  EXPECT_THAT(refusal(found), HasSubstr("the driver shows no GPU"));
  found.reason = "cudaErrorNotPermitted";
  EXPECT_THAT(refusal(found), HasSubstr("no GPU can be used (cudaErrorNotPermitted)"));
  found.driver = 11080;
  EXPECT_THAT(refusal(found),
              HasSubstr("too old: it runs CUDA 11.8, and this program has CUDA 12.6"));
  found.driver = 0;
  EXPECT_THAT(refusal(found), AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("CUDA 13.0")));
}

TEST(GpuChoiceTest, ADriverHasToRunTheToolkitThatMadeTheCodeOfItsGpu) {
  FoundGpus found{.driver = 12020, .reason = "", .gpus = {{"Orin", 87}, {"H100", 90}}};
  EXPECT_TRUE(check(found, {0}).ok()) << "JetPack 6";
  EXPECT_THAT(refusal(found, {1}),
              HasSubstr("too old: it runs CUDA 12.2, and this program has CUDA 13.0"));
  found.driver = 13000;
  EXPECT_TRUE(check(found, {0}).ok()) << "JetPack 7";
  EXPECT_TRUE(check(found, {1}).ok());
}

TEST(GpuChoiceTest, AGpuRunsItsOwnCodeOrThatOfAnEarlierOneOfItsKind) {
  const auto taken = [](int capability) {
    const GpuCode* const code = code_for(capability, kMade);
    return code == nullptr ? 0 : code->architecture;
  };
  EXPECT_EQ(taken(80), 80);
  EXPECT_EQ(taken(86), 80);
  EXPECT_EQ(taken(87), 87);
  EXPECT_EQ(taken(89), 80) << "87 is a Jetson's";
  EXPECT_EQ(taken(90), 90);
  EXPECT_EQ(taken(100), 0);
  EXPECT_EQ(taken(110), 110);
  EXPECT_EQ(code_for(87, std::span(kMade).first(1)), nullptr) << "80 is of cards";
}

}  // namespace
}  // namespace outrider::cuda
