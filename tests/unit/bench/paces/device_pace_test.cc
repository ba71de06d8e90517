// SPDX-License-Identifier: Apache-2.0
#include "bench/paces/device_pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace outrider {
namespace {

using testing::HasSubstr;

std::string file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

std::string why_not(const std::string& text) {
  const auto pace = read_device_pace(file("bad_pace.toml", text));
  EXPECT_EQ(pace.status().code(), StatusCode::kInvalidArgument) << text;
  return pace.status().message();
}

DevicePace edge_device() {
  return {.device = "a \"small\" one",
          .draft = MeasuredTimes{"draft, f32", *PaceCurve::create({{1, 8.25}, {4, 9.5}}), 1}};
}

DevicePace server_device() {
  return {.device = "a large one",
          .target = MeasuredTimes{"target, int8", *PaceCurve::create({{1, 20}, {5, 25}}), 1.08}};
}

TEST(DevicePaceTest, WhatWasWrittenIsRead) {
  DevicePace both = edge_device();
  both.target = server_device().target;
  const auto read = read_device_pace(file("both.toml", to_toml(both)));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->device, "a \"small\" one");
  EXPECT_EQ(read->draft->model, "draft, f32");
  EXPECT_EQ(read->draft->ms.ms(1), 8.25);
  EXPECT_EQ(read->draft->ms.ms(4), 9.5);
  EXPECT_EQ(read->target->ms.ms(5), 25);
  EXPECT_EQ(read->target->exit_cost, 1.08);
}

TEST(DevicePaceTest, TwoFilesMakeOnePace) {
  const std::vector<std::string> files = {file("edge.toml", to_toml(edge_device())),
                                          file("server.toml", to_toml(server_device()))};
  const auto pace = pace_from_files(files);
  ASSERT_TRUE(pace.ok()) << pace.status().to_string();
  EXPECT_EQ(pace->name, "edge+server");
  EXPECT_EQ(pass_curve(*pace).ms(5), 25);
  EXPECT_EQ(step_curve(*pace).ms(1), 8.25);
  EXPECT_EQ(pace->own_exit_cost, 1.08);
  EXPECT_EQ(pass_curve(at_distance(*pace, 25)).ms(1), 20) << "the device stays the same";
}

TEST(DevicePaceTest, APartThatIsMissingOrStandsTwiceIsRefused) {
  const std::string edge = file("edge.toml", to_toml(edge_device()));
  const std::vector<std::string> one = {edge}, twice = {edge, edge};
  EXPECT_THAT(pace_from_files(one).status().message(), HasSubstr("no file has [target]"));
  EXPECT_THAT(pace_from_files(twice).status().message(), HasSubstr("[draft] stands twice"));
  EXPECT_EQ(pace_from_files(std::vector<std::string>{"/nowhere.toml"}).status().code(),
            StatusCode::kNotFound);
}

TEST(DevicePaceTest, WhatIsNoPaceIsRefusedWithItsLine) {
  EXPECT_THAT(why_not("device = \"x\"\n"), HasSubstr("neither [draft] nor [target]"));
  EXPECT_THAT(why_not("[draft]\nrows = [1, 2]\nms = [3]\n"), HasSubstr("of the same length"));
  EXPECT_THAT(why_not("[draft]\nrows = [1]\nms = [-3]\n"), HasSubstr("above 0"));
  EXPECT_THAT(why_not("[draft]\nrows = [1]\nms = [nan]\n"), HasSubstr("above 0"));
  EXPECT_THAT(why_not("[draft]\nrows = [2, 1]\nms = [3, 4]\n"), HasSubstr("line 1"));
  EXPECT_THAT(why_not("[target]\nrows = [1]\nms = [3]\nexit-cost = 0.5\n"),
              HasSubstr("from 1 to 10"));
  EXPECT_THAT(why_not("[target]\nrows = [1]\nms = [3]\nexits = 2\n"),
              HasSubstr("line 4: unknown key 'exits'"));
  EXPECT_THAT(why_not("speed = 2\n"), HasSubstr("unknown key 'speed'"));
  EXPECT_THAT(why_not("[draft\n"), HasSubstr("line 1"));
}

}  // namespace
}  // namespace outrider
