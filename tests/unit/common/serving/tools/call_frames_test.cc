// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tools/call_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

const Tools kRobot = {{"move", nullptr}, {"stop", nullptr}};

OrderedJson frames(const std::string& format) {
  return OrderedJson::parse(*call_frames(*find_call_format(format), kRobot, {.several = true}));
}

// Marks that models leave out are still asked for.
TEST(CallFrames, KeepTheMarksThatModelsLeaveOut) {
  const OrderedJson form = frames("hermes");
  ASSERT_EQ(form["frames"].size(), 2);
  EXPECT_EQ(form["frames"][0][0], "<tool_call>\n{\"name\": \"move\", \"arguments\": ");
  EXPECT_EQ(form["frames"][0][2], "}\n</tool_call>");
  EXPECT_TRUE(form.value("several", false));
  const auto in_text = call_frames_in_text(*find_call_format("hermes"), kRobot, true);
  ASSERT_TRUE(in_text);
  EXPECT_EQ(OrderedJson::parse(*in_text)["trigger"], "<tool_call>");
}

TEST(CallFrames, HaveNoMarkWhereTheFormNeedsNone) {
  const OrderedJson form = frames("llama3_json");
  EXPECT_EQ(form["frames"][1][0], "{\"name\": \"stop\", \"parameters\": ");
  EXPECT_FALSE(form.contains("several")) << "nothing stands between two calls";
  EXPECT_FALSE(call_frames_in_text(*find_call_format("llama3_json"), kRobot, true));
}

TEST(CallFrames, RefuseAFormWithoutJson) {
  const auto refused = call_frames(*find_call_format("pythonic"), kRobot, {});
  EXPECT_EQ(refused.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(refused.status().message(), testing::HasSubstr("tool_choice auto"));
}

}  // namespace
}  // namespace outrider
