// SPDX-License-Identifier: Apache-2.0
#include "bench/scenario/drawn_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace outrider {
namespace {

DrawnFrom three_networks() {
  DrawnFrom from;
  for (const char* name : {"wifi", "lte", "starlink"}) {
    from.networks.push_back(*find_link_profile(name));
  }
  return from;
}

std::vector<std::string> names_drawn(std::size_t count, std::uint64_t seed) {
  std::vector<std::string> names;
  const auto drawn = draw_settings(three_networks(), count, seed);
  EXPECT_TRUE(drawn.ok()) << drawn.status().to_string();
  for (const GridSetting& setting : *drawn) names.push_back(setting.name);
  return names;
}

TEST(DrawnSettingsTest, TheSeedDecidesWhatIsDrawn) {
  EXPECT_EQ(names_drawn(12, 7), names_drawn(12, 7));
  EXPECT_NE(names_drawn(12, 7), names_drawn(12, 8));
}

TEST(DrawnSettingsTest, EachSettingIsDrawnOnce) {
  const std::vector<std::string> all = names_drawn(3 * 3 * 3 * 2, 1);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
}

TEST(DrawnSettingsTest, ASettingIsWhatItsNameSays) {
  DrawnFrom from = three_networks();
  from.networks.resize(1);
  from.target_scales = {2};
  from.draft_scales = {4};
  from.temperatures = {0.7};
  const GridSetting drawn = draw_settings(from, 1, 0)->front();
  EXPECT_EQ(drawn.name, "wifi, target x2, draft x4, T=0.7");
  EXPECT_NEAR(drawn.pass.ms(1), 2 * 17.9, 0.2);
  EXPECT_NEAR(drawn.step.ms(1), 4 * 7.8, 0.2);
  EXPECT_EQ(drawn.link.name, "wifi");
  EXPECT_FLOAT_EQ(drawn.sampling.temperature, 0.7F);
}

TEST(DrawnSettingsTest, MoreThanThereAreIsRefusedWithTheirNumber) {
  const auto refused = draw_settings(three_networks(), 55, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().to_string(), testing::HasSubstr("there are 54"));
}

}  // namespace
}  // namespace outrider
