// SPDX-License-Identifier: Apache-2.0
#include "common/base/json_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {

enum class Color : std::uint8_t { kRed, kBlue };

template <>
inline constexpr auto enum_names<Color> = std::to_array<EnumName<Color>>({{Color::kRed, "red"},
                                                                          {Color::kBlue, "blue"}});

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Inner {
  std::uint8_t small = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("small", self.small);
  }
};

struct Outer {
  Color color = Color::kRed;
  Duration time{0};
  std::optional<double> rate;
  std::vector<Inner> inner;
  bool flag = false;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("color", self.color);
    field("time_ms", self.time);
    field("rate", self.rate);
    field("inner", self.inner);
    field("flag", self.flag);
  }
};

TEST(EnumNamesTest, NamesAreReadAndWritten) {
  EXPECT_STREQ(name_of(Color::kBlue), "blue");
  EXPECT_EQ(parse_name<Color>("red"), Color::kRed);
  EXPECT_EQ(parse_name<Color>("green"), std::nullopt);
  EXPECT_THAT(all_names<Color>(), ElementsAre("red", "blue"));
}

TEST(JsonRecordTest, EveryKindOfFieldIsWrittenAndReadBack) {
  const Outer outer{.color = Color::kBlue,
                    .time = from_ms(1.5),
                    .rate = {},
                    .inner = {{.small = 3}, {.small = 4}},
                    .flag = true};
  const Json json = write_json(outer);
  EXPECT_EQ(json, Json({{"color", "blue"},
                        {"time_ms", 1.5},
                        {"rate", nullptr},
                        {"inner", {{{"small", 3}}, {{"small", 4}}}},
                        {"flag", true}}));
  const Result<Outer> read = read_json<Outer>(json, "test");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(write_json(*read), json);
  EXPECT_EQ(write_json(Outer{})["inner"], Json::array());
}

TEST(JsonRecordTest, WhatIsMissingOrOfAnotherTypeIsNamedWithItsPath) {
  const auto problem = [](const char* key, const Json& value) {
    Json json = write_json(Outer{});
    json[key] = value;
    return read_json<Outer>(json, "test").status().message();
  };
  EXPECT_THAT(problem("color", "green"), HasSubstr("\"color\""));
  EXPECT_THAT(problem("time_ms", "soon"), HasSubstr("\"time_ms\""));
  EXPECT_THAT(problem("time_ms", 1e10), HasSubstr("\"time_ms\"")) << "beyond what a double holds";
  EXPECT_THAT(problem("time_ms", -1e300), HasSubstr("\"time_ms\""));
  EXPECT_THAT(problem("rate", true), HasSubstr("\"rate\""));
  EXPECT_THAT(problem("flag", 1), HasSubstr("\"flag\""));
  EXPECT_THAT(problem("inner", {{{"small", 256}}}), HasSubstr("\"inner.small\""));
  EXPECT_THAT(problem("inner", {{{"small", -1}}}), HasSubstr("\"inner.small\""));
  EXPECT_THAT(problem("inner", {{{"small", 1.5}}}), HasSubstr("\"inner.small\""));
  EXPECT_EQ(problem("more", 1), "") << "other keys are no concern";
}

}  // namespace
}  // namespace outrider
