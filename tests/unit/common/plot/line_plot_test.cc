// SPDX-License-Identifier: Apache-2.0
#include "common/plot/line_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::Not;

LinePlot plot() {
  return {
      .title = "a < b & c",
      .note = "emulated",
      .panels = {{.x_label = "γ",
                  .y_label = "speed-up",
                  .series = {{.name = "fsd", .points = {{1, 1.5, Interval{1.4, 1.6}}, {10, 2.0}}},
                             {.name = "sd"}}}}};
}

TEST(LinePlotTest, AxesEndAtRoundMarksAboveTheLargestValue) {
  const std::string svg = to_svg(plot());
  EXPECT_THAT(svg, HasSubstr(">10</text>"));
  EXPECT_THAT(svg, HasSubstr(">2</text>"));
  EXPECT_THAT(svg, HasSubstr(">1.6</text>"));
}

TEST(LinePlotTest, TextIsEscaped) {
  EXPECT_THAT(to_svg(plot()), HasSubstr("a &lt; b &amp; c"));
}

TEST(LinePlotTest, PointsStandWhereTheirValuesAre) {
  // x: 60 + 380 of 460 wide at the axis's end; y: 70 at its top.
  EXPECT_THAT(to_svg(plot()), HasSubstr("440.0,70.0"));
}

TEST(LinePlotTest, AxesEndWhereTheyAreTold) {
  LinePlot fixed = plot();
  fixed.panels[0].x_end = 20;
  fixed.panels[0].y_end = 2.5;
  EXPECT_THAT(to_svg(fixed), HasSubstr("250.0,120.0"));
}

TEST(LinePlotTest, NothingToShowIsStillAPlot) {
  const std::string svg = to_svg({.title = "empty", .note = "", .panels = {{.x_label = "x"}}});
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(LinePlotTest, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_FALSE(write_plot(plot(), "/nowhere/plot.svg").ok());
}

}  // namespace
}  // namespace outrider
