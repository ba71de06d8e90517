// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/link_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "emulation/path/impaired_path.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

double rtt_ms(const LinkProfile& profile) {
  return to_ms(profile.up.delay + profile.down.delay);
}

TEST(LinkProfilesTest, TheTableHasTheNamesThatPeopleKnow) {
  std::vector<std::string> names;
  for (const LinkProfile& profile : link_profiles()) names.push_back(profile.name);
  EXPECT_THAT(names, ElementsAre("ethernet", "wifi", "wifi-roam", "5g", "lte", "4g-fast", "4g-slow",
                                 "3g", "3g-slow", "starlink", "satellite", "flaky", "offline"));
}

TEST(LinkProfilesTest, KnownNumbersAreTheSources) {
  const LinkProfile lte = *find_link_profile("lte");
  EXPECT_EQ(rtt_ms(lte), 70);
  EXPECT_EQ(lte.down.bit_per_s, 12e6);
  EXPECT_EQ(lte.up.bit_per_s, 12e6);
  EXPECT_DOUBLE_EQ(lte.up.loss.share, 0.001);
  const LinkProfile fast = *find_link_profile("4g-fast");
  EXPECT_EQ(rtt_ms(fast), 60);
  EXPECT_EQ(fast.down.bit_per_s, 9e6);
  EXPECT_EQ(fast.up.bit_per_s, 1.5e6);
  EXPECT_EQ(rtt_ms(*find_link_profile("ethernet")), 1);
  EXPECT_EQ(rtt_ms(*find_link_profile("satellite")), 600);
  EXPECT_NEAR(mean_loss(find_link_profile("flaky")->up.loss), 0.05, 1e-9);
  EXPECT_EQ(find_link_profile("wifi-roam")->up.loss.windows.size(), 1u);
}

TEST(LinkProfilesTest, WhatIsOursIsMarkedAsChosen) {
  for (const LinkProfile& profile : link_profiles()) {
    EXPECT_FALSE(profile.source.empty() && profile.chosen.empty()) << profile.name;
    if (profile.up.jitter.law != JitterSettings::Law::kNone) {
      EXPECT_THAT(profile.chosen, HasSubstr("jitter")) << profile.name;
      EXPECT_THAT(profile.description(), HasSubstr("chosen: "));
    }
    if (profile.up.has_rate()) {
      EXPECT_THAT(profile.chosen, HasSubstr("queue"));
      EXPECT_GE(profile.up.queue_bytes, 3000u);
    }
  }
}

TEST(LinkProfilesTest, RoundTripsVaryAsTheTableSays) {
  const std::vector<Duration> times = probe_times({}, from_ms(2e6), from_ms(100), 1);
  for (const char* name : {"wifi", "5g", "lte", "starlink"}) {
    const LinkProfile profile = *find_link_profile(name);
    const std::vector<double> ms = arrived(expected_round_trips(profile, 92, times, 3));
    double sum = 0, squares = 0;
    for (const double one : ms) sum += one;
    const double mean = sum / static_cast<double>(ms.size());
    for (const double one : ms) squares += (one - mean) * (one - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(ms.size()));
    const double asked = to_ms(profile.up.jitter.deviation) * std::sqrt(2);
    EXPECT_NEAR(mean, rtt_ms(profile), 0.02 * rtt_ms(profile)) << name;
    EXPECT_NEAR(deviation, asked, 0.15 * asked) << name;
    EXPECT_GT(Jitter::floor_of(profile.up), Duration::zero());
  }
}

TEST(LinkProfilesTest, OfflineCarriesNothing) {
  const std::vector<Duration> times = {from_ms(0), from_ms(1), from_ms(1000)};
  EXPECT_TRUE(arrived(expected_round_trips(*find_link_profile("offline"), 92, times, 0)).empty());
  EXPECT_THAT(find_link_profile("offline")->description(), HasSubstr("nothing arrives"));
}

TEST(LinkProfilesTest, AnUnknownNameListsThoseThatAreThere) {
  const auto profile = find_link_profile("lte2");
  ASSERT_FALSE(profile.ok());
  EXPECT_EQ(profile.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(profile.status().message(), HasSubstr("'lte2'"));
  EXPECT_THAT(profile.status().message(), HasSubstr("ethernet wifi"));
}

TEST(LinkProfilesTest, WindowsCountInWhatIsExpectedToBeLost) {
  LossSettings loss;
  loss.share = 0.1;
  loss.windows = {{.first = from_ms(1000), .length = from_ms(500)}};
  EXPECT_NEAR(expected_loss(loss, from_ms(1000), from_ms(2000)), 1 - 0.5 * 0.9, 1e-9);
  EXPECT_NEAR(expected_loss(loss, from_ms(3000), from_ms(4000)), 0.1, 1e-9);
}

}  // namespace
}  // namespace outrider
