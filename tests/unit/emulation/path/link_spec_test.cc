// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/link_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST(LinkSpecTest, ANameIsAProfileAndAListIsSeveral) {
  EXPECT_EQ(parse_link("lte")->name, "lte");
  EXPECT_EQ(parse_links("all")->size(), link_profiles().size());
  const auto two = parse_links("lte,starlink+loss=1%");
  ASSERT_TRUE(two.ok()) << two.status().to_string();
  ASSERT_EQ(two->size(), 2u);
  EXPECT_EQ((*two)[1].name, "starlink+loss=1%");
}

TEST(LinkSpecTest, ChangesHoldInBothDirectionsOrInOne) {
  const auto link = parse_link(
      "4g-fast+loss=2%+up.rate=500kbit+queue=32kb+down.silent=5s+duplicate=1%+reorder=3%/30ms"
      "+blackout=10s/500ms/30s+up.blackout=1s/1ms+reset=7s");
  ASSERT_TRUE(link.ok()) << link.status().to_string();
  EXPECT_DOUBLE_EQ(link->up.loss.share, 0.02);
  EXPECT_DOUBLE_EQ(link->down.loss.share, 0.02);
  EXPECT_EQ(link->up.bit_per_s, 5e5);
  EXPECT_EQ(link->down.bit_per_s, 9e6);
  EXPECT_EQ(link->down.queue_bytes, 32u << 10);
  EXPECT_FALSE(link->up.silent_from);
  EXPECT_EQ(link->down.silent_from, seconds(5));
  EXPECT_DOUBLE_EQ(link->up.duplicate, 0.01);
  EXPECT_DOUBLE_EQ(link->up.reorder, 0.03);
  EXPECT_EQ(link->up.reorder_by, milliseconds(30));
  EXPECT_EQ(link->down.loss.windows.size(), 1u);
  EXPECT_EQ(link->up.loss.windows.size(), 2u);
  EXPECT_EQ(link->reset_at, seconds(7));
  EXPECT_THAT(link->description(), HasSubstr("reset after 7 s"));
}

TEST(LinkSpecTest, ADelayMayReplaceTheProfiles) {
  const auto link = parse_link("ethernet+delay=42ms");
  ASSERT_TRUE(link.ok());
  EXPECT_EQ(link->up.delay, milliseconds(42));
}

TEST(LinkSpecTest, ChangesAloneAreALinkThatDoesNothingElse) {
  const auto link = parse_link("delay=20ms+up.loss=1%");
  ASSERT_TRUE(link.ok()) << link.status().to_string();
  EXPECT_EQ(link->name, "delay=20ms+up.loss=1%");
  EXPECT_EQ(link->up.delay, milliseconds(20));
  EXPECT_EQ(link->down.delay, milliseconds(20));
  EXPECT_DOUBLE_EQ(link->up.loss.share, 0.01);
  EXPECT_FALSE(link->up.has_rate());
  EXPECT_FALSE(parse_link("delay=20").ok());
}

TEST(LinkSpecTest, WhatCouldBeReadInTwoWaysIsRefused) {
  for (const char* bad : {"lte+loss=2",
                          "lte+loss=101%",
                          "lte+loss=-1%",
                          "lte+loss=nan%",
                          "lte+rate=0mbit",
                          "lte+rate=5",
                          "lte+rate=5Mbit",
                          "lte+delay=20",
                          "lte+delay=-1ms",
                          "lte+delay=1e300s",
                          "lte+delay=1ms",
                          "lte+reorder=1%",
                          "lte+reorder=1%/3",
                          "lte+blackout=1s",
                          "lte+blackout=1s/2s/1s",
                          "lte+silent=soon",
                          "lte+reset=",
                          "lte+jitters=1ms",
                          "lte+loss",
                          "lte+",
                          "ethernet+queue=64kb",
                          "lte+queue=64",
                          "lte+up.reset=1s",
                          "lte+left.loss=1%"}) {
    const auto link = parse_link(bad);
    ASSERT_FALSE(link.ok()) << bad;
    EXPECT_EQ(link.status().code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(link.status().message(), HasSubstr("expected")) << bad;
  }
}

TEST(LinkSpecTest, UnknownProfilesAndFilesAreNamed) {
  EXPECT_THAT(parse_link("").status().message(), HasSubstr("unknown; there are ethernet"));
  EXPECT_THAT(parse_links("lte,,wifi").status().message(), HasSubstr("''"));
  EXPECT_THAT(parse_link("trace:").status().message(), HasSubstr("the path of a trace file"));
  EXPECT_THAT(parse_link("trace:/nowhere").status().message(), HasSubstr("/nowhere"));
  EXPECT_THAT(parse_link("trace:x@y").status().message(), HasSubstr("30s after the '@'"));
}

TEST(LinkSpecTest, ATraceBeginsAtItsOffset) {
  const std::string path = testing::TempDir() + "spec.trace";
  std::ofstream(path) << "1\n2\n";
  const auto link = parse_link("trace:" + path + "@1.5s+loss=1%");
  ASSERT_TRUE(link.ok()) << link.status().to_string();
  EXPECT_EQ(link->down.trace_offset, milliseconds(1500));
  EXPECT_DOUBLE_EQ(link->down.loss.share, 0.01);
  EXPECT_EQ(link->name, "trace:spec.trace+loss=1%");
}

}  // namespace
}  // namespace outrider
