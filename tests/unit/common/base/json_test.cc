// SPDX-License-Identifier: Apache-2.0
#include "common/base/json.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(ParseJson, ReturnsTheValue) {
  EXPECT_EQ((*parse_json(R"({"a": [1, "[{\"\\"]})", "x"))["a"][0], 1);
}

TEST(ParseJson, RefusesWhatIsNotJsonAndNamesTheSource) {
  for (const char* text : {"", "{", "{\"a\":}", "\"\xff\"", "[1] 2", "nul"}) {
    const Result<Json> json = parse_json(text, "config.json");
    ASSERT_FALSE(json.ok()) << text;
    EXPECT_EQ(json.status().code(), StatusCode::kDataLoss);
    EXPECT_TRUE(json.status().message().starts_with("config.json: ")) << json.status().message();
  }
}

TEST(ParseJson, BoundsTheDepth) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth), "x").ok());
  EXPECT_FALSE(parse_json(nested(kMaxJsonDepth + 1), "x").ok());
  EXPECT_FALSE(parse_json(nested(100'000), "x").ok());
  EXPECT_FALSE(parse_json(std::string(100'000, '['), "x").ok());
  EXPECT_TRUE(parse_json('"' + std::string(1000, '[') + '"', "x").ok());
}

TEST(Json, ARepeatedKeyIsRefusedByNameWhereThatIsAskedFor) {
  const auto strict = [](const char* text) {
    return parse_json(text, "the body", RepeatedKeys::kRefused);
  };
  EXPECT_EQ((*parse_json(R"({"a":1,"a":2})", "x"))["a"], 2);
  for (const char* text : {R"({"a":1,"a":2})", R"([{"b":{"a":1,"\u0061":2}}])"}) {
    EXPECT_EQ(strict(text).status().code(), StatusCode::kDataLoss);
    EXPECT_NE(strict(text).status().message().find("the key \"a\" stands twice"),
              std::string::npos);
  }
  EXPECT_TRUE(strict(R"({"a":{"a":[{"a":1},{"a":1}]},"b":{"a":1}})").ok());
  EXPECT_FALSE(strict(R"({"a":)").ok());
}

}  // namespace
}  // namespace outrider
