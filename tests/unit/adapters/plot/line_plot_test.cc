// SPDX-License-Identifier: Apache-2.0
#include "adapters/plot/line_plot.h"

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

TEST(LinePlotTest, ASeriesWithoutANameGoesWithTheOneBefore) {
  LinePlot paired = plot();
  const std::string before = to_svg(paired);
  paired.panels[0].series.insert(paired.panels[0].series.begin() + 1,
                                 {.points = {{1, 1}, {10, 1}}, .dashed = true});
  const std::string svg = to_svg(paired);
  EXPECT_THAT(svg, HasSubstr("stroke=\"#4477aa\" stroke-dasharray"));
  EXPECT_THAT(before, HasSubstr("fill=\"#cc6677\"")) << "the other series' legend";
  EXPECT_THAT(svg, HasSubstr("fill=\"#cc6677\""));
  EXPECT_THAT(svg, Not(HasSubstr("#228833")));
}

TEST(LinePlotTest, AFewWholeThingsAreCountedOneByOne) {
  LinePlot layers = plot();
  layers.panels[0].x_end = 8;
  EXPECT_THAT(to_svg(layers), HasSubstr(">7</text>"));
  layers.panels[0].x_end = 40;
  EXPECT_THAT(to_svg(layers), HasSubstr(">32</text>"));
}

TEST(LinePlotTest, NothingToShowIsStillAPlot) {
  const std::string svg = to_svg({.title = "empty", .note = "", .panels = {{.x_label = "x"}}});
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(LinePlotTest, OnAPageItIsAsWideAsThereIsRoom) {
  LinePlot plain = plot();
  plain.title = "a \"b\"";
  plain.panels[0].series[1].colour = 2;
  const std::string svg = to_inline_svg(plain);
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 460 "));
  EXPECT_THAT(svg, HasSubstr("aria-label=\"a &quot;b&quot;\""));
  EXPECT_THAT(svg, Not(HasSubstr("<rect")));
  EXPECT_THAT(svg, Not(HasSubstr(" width=")));
  EXPECT_THAT(svg, HasSubstr("<g fill=\"#228833\">")) << "sd's";
  EXPECT_THAT(svg, HasSubstr("class=\"grid\""));
}

TEST(LinePlotTest, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_FALSE(write_plot(plot(), "/nowhere/plot.svg").ok());
}

}  // namespace
}  // namespace outrider
