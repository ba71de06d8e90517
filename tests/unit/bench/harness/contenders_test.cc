// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/contenders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_of(const std::vector<std::string>& names, std::vector<int> gammas) {
  const auto variants = contenders(names, gammas);
  EXPECT_TRUE(variants.ok()) << variants.status().to_string();
  std::vector<std::string> out;
  if (!variants.ok()) return out;
  for (const GridVariant& variant : *variants) out.push_back(variant.name);
  return out;
}

TEST(ContendersTest, SeveralDraftLengthsMultiplyThoseThatHaveOne) {
  EXPECT_THAT(names_of({"ar", "ssd", "edge-only"}, {3, 5}),
              ElementsAre("ar", "ssd γ=3", "ssd γ=5", "edge-only"));
  EXPECT_THAT(names_of({"ar", "ssd"}, {3}), ElementsAre("ar", "ssd"));
  const auto own = *contenders({"sd", "mirror"}, {});
  EXPECT_EQ(own[0].gamma, 4);
  EXPECT_EQ(own[1].gamma, 8) << "the most; it ends rounds where they are no longer worth it";
}

TEST(ContendersTest, TheBestIsLookedForAmongItsOwnLengths) {
  const auto variants = *contenders({"fsd-best"}, {4});
  ASSERT_EQ(variants.size(), 7u);
  EXPECT_EQ(variants.front().gamma, 2);
  EXPECT_EQ(variants.back().gamma, 8);
  for (const GridVariant& variant : variants) {
    EXPECT_EQ(variant.best_of, "fsd-best");
    EXPECT_TRUE(variant.uses_exits);
  }
}

TEST(ContendersTest, AllAreEachOnceAndTheFirstIsPlainDecoding) {
  const auto variants = *contenders({"all"}, {4});
  EXPECT_EQ(variants.size(), 7u + 4 * 7 + 2);
  EXPECT_EQ(variants.front().name, "ar");
  EXPECT_EQ(variants.back().place, DraftPlace::kAlone);
  EXPECT_TRUE(has_own_text(variants.back()));
}

TEST(ContendersTest, WhatIsComparedBesideTheTargetHasItsOwnBestLength) {
  const auto variants =
      *contenders({"sd-cloud-best", "block-cloud", "edge-strong", "mirror-sd"}, {});
  ASSERT_EQ(variants.size(), 3u * 7 + 1);
  for (std::size_t i = 0; i < 21; ++i) {
    EXPECT_EQ(variants[i].gamma, 2 + static_cast<int>(i) % 7);
    EXPECT_EQ(variants[i].drafts_blocks, variants[i].best_of == "block-cloud");
    EXPECT_FALSE(variants[i].uses_exits);
    EXPECT_FALSE(has_own_text(variants[i]));
  }
  EXPECT_EQ(variants[20].place, DraftPlace::kStrongEdge);
  EXPECT_EQ(variants[21].place, DraftPlace::kCloud);
  EXPECT_TRUE(variants[21].uses_exits) << "it drafts from what they name";
}

TEST(ContendersTest, AblationsLeaveOutWhatTheirNamesSay) {
  const auto variants = *contenders({"mirror-plain", "mirror-exits", "mirror-fanout"}, {4});
  EXPECT_TRUE(variants[0].without_exits);
  EXPECT_EQ(variants[0].fan_out, 1);
  EXPECT_FALSE(variants[1].without_exits);
  EXPECT_EQ(variants[1].fan_out, 1);
  EXPECT_TRUE(variants[2].without_exits);
  EXPECT_EQ(variants[2].fan_out, std::nullopt);
}

TEST(ContendersTest, WhatNobodyKnowsAndWhatStandsTwiceIsRefused) {
  EXPECT_THAT(contenders({"miror"}, {4}).status().message(), HasSubstr("Did you mean 'mirror'?"));
  EXPECT_THAT(contenders({"sd", "all"}, {4}).status().message(), HasSubstr("sd stands twice"));
  EXPECT_THAT(contenders({}, {4}).status().message(), HasSubstr("empty"));
}

}  // namespace
}  // namespace outrider
