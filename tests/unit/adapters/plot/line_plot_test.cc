// SPDX-License-Identifier: Apache-2.0
#include "adapters/plot/line_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

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
  EXPECT_THAT(svg, HasSubstr(">1.5</text>"));
}

TEST(LinePlotTest, TicksAreOnesTwosOrFives) {
  EXPECT_THAT(round_ticks(10), testing::ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(
      round_ticks(0.0137),
      testing::Pointwise(testing::DoubleEq(), {0.0, 0.002, 0.004, 0.006, 0.008, 0.010, 0.012}));
  for (double end = 1e-3; end < 1e6; end *= 1.07) {
    const std::vector<double> ticks = round_ticks(end);
    ASSERT_GE(ticks.size(), 3u) << end;
    ASSERT_LE(ticks.size(), 8u) << end;
    EXPECT_LE(ticks.back(), end * (1 + 1e-9));
    EXPECT_GT(ticks.back() + ticks[1], end) << "the last one before the end";
    const double digits = ticks[1] / std::pow(10, std::floor(std::log10(ticks[1]) + 1e-9));
    EXPECT_THAT(digits, testing::AnyOf(testing::DoubleNear(1, 1e-6), testing::DoubleNear(2, 1e-6),
                                       testing::DoubleNear(5, 1e-6)))
        << end;
  }
}

TEST(LinePlotTest, CurvesDifferInDashesAndMarksAndTheLegendHasSamples) {
  LinePlot several = plot();
  several.panels[0].series = {
      {.name = "a", .points = {{1, 1}}, .colour = 0},
      {.name = "b", .points = {{1, 1}}, .pattern = 1, .colour = 0},
      {.name = "c", .points = {{1, 1}, {2, 1}}, .marked = false, .pattern = 2, .colour = 0}};
  const std::string svg = to_svg(several);
  std::size_t samples = 0;
  for (std::size_t at = 0; (at = svg.find("class=\"sample\"", at)) != std::string::npos; ++at) {
    ++samples;
  }
  EXPECT_EQ(samples, 3u);
  EXPECT_THAT(svg, HasSubstr("stroke=\"#4477aa\" stroke-dasharray=\"7 3\""));
  EXPECT_THAT(svg, HasSubstr("stroke=\"#4477aa\" stroke-dasharray=\"2 2\""));
  EXPECT_THAT(svg, HasSubstr("fill=\"#4477aa\" d=\"M-2.5 0a")) << "circles";
  EXPECT_THAT(svg, HasSubstr("fill=\"#4477aa\" d=\"M-2.3 -2.3h")) << "squares";
  EXPECT_THAT(svg, Not(HasSubstr("M0 -3.2l"))) << "c has no marks";
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
                                 {.points = {{1, 1}, {10, 1}}, .pattern = 1});
  const std::string svg = to_svg(paired);
  EXPECT_THAT(svg, HasSubstr("stroke=\"#4477aa\" stroke-dasharray"));
  EXPECT_THAT(before, HasSubstr("stroke=\"#cc6677\"")) << "the other series' legend";
  EXPECT_THAT(svg, HasSubstr("stroke=\"#cc6677\""));
  EXPECT_THAT(svg, Not(HasSubstr("#228833")));
}

TEST(LinePlotTest, AFewWholeThingsAreCountedOneByOne) {
  LinePlot layers = plot();
  layers.panels[0].x_end = 8;
  EXPECT_THAT(to_svg(layers), HasSubstr(">7</text>"));
  layers.panels[0].x_end = 40;
  EXPECT_THAT(to_svg(layers), HasSubstr(">30</text>"));
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
  EXPECT_THAT(svg, HasSubstr("fill=\"#228833\" d=")) << "sd's";
  EXPECT_THAT(svg, HasSubstr("class=\"grid\""));
}

TEST(LinePlotTest, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_FALSE(write_plot(plot(), "/nowhere/plot.svg").ok());
}

}  // namespace
}  // namespace outrider
