// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<ConfigEntry> parsed(std::string_view text) {
  Result<std::vector<ConfigEntry>> entries = parse_config_entries(text, "f.toml");
  EXPECT_TRUE(entries.ok()) << entries.status().to_string();
  return entries.ok() ? *entries : std::vector<ConfigEntry>{};
}

std::string error_of(std::string_view text) {
  Result<std::vector<ConfigEntry>> entries = parse_config_entries(text, "f.toml");
  return entries.ok() ? "accepted" : entries.status().message();
}

TEST(ConfigFile, ReadsSectionsQuotedTextNumbersAndLists) {
  const std::string_view text = R"(
# a comment
temp = 0.7        # after a value
color-accept = true
[run]
p = "a # is no comment, \"here\"\n"
file = 'C:\plain'
stop = ["User:", '###', x]
)";
  EXPECT_THAT(
      parsed(text),
      ElementsAre(ConfigEntry{"", "temp", {"0.7"}, 3}, ConfigEntry{"", "color-accept", {"true"}, 4},
                  ConfigEntry{"run", "p", {"a # is no comment, \"here\"\n"}, 6},
                  ConfigEntry{"run", "file", {"C:\\plain"}, 7},
                  ConfigEntry{"run", "stop", {"User:", "###", "x"}, 8}));
}

TEST(ConfigFile, ReadsOverByteOrderMarkAndWindowsLineEnds) {
  EXPECT_THAT(parsed("\xEF\xBB\xBFn = 1\r\nc = 2\r\n"),
              ElementsAre(ConfigEntry{"", "n", {"1"}, 1}, ConfigEntry{"", "c", {"2"}, 2}));
}

TEST(ConfigFile, EmptyTextAndEmptyListHaveNoValues) {
  EXPECT_THAT(parsed(""), ElementsAre());
  EXPECT_THAT(parsed("stop = []"), ElementsAre(ConfigEntry{"", "stop", {}, 1}));
  EXPECT_THAT(parsed("p = \"\""), ElementsAre(ConfigEntry{"", "p", {""}, 1}));
}

TEST(ConfigFile, NamesFileAndLineOfWhatItCannotRead) {
  EXPECT_THAT(error_of("n = 1\nn 2\n"), HasSubstr("f.toml:2: expected key = value"));
  EXPECT_THAT(error_of("[run\n"), HasSubstr("f.toml:1: expected [section]"));
  EXPECT_THAT(error_of("\n\np = \"open\n"), HasSubstr("f.toml:3: the closing quote is missing"));
  EXPECT_THAT(error_of("p = a b"), HasSubstr("quote a value that holds spaces"));
  EXPECT_THAT(error_of("p ="), HasSubstr("a value is missing"));
  EXPECT_THAT(error_of("p = [1 2]"), HasSubstr("expected ',' or ']'"));
  EXPECT_THAT(error_of("p = [1,"), HasSubstr("a value is missing"));
  EXPECT_THAT(error_of("p = \"\\q\""), HasSubstr("unknown escape"));
  EXPECT_THAT(error_of("p = \"\\"), HasSubstr("unknown escape"));
}

TEST(ConfigFile, RefusesAKeyThatStandsTwice) {
  EXPECT_THAT(error_of("[a]\nn = 1\nn = 2"), HasSubstr("f.toml:3: 'n' stands twice"));
  EXPECT_EQ(parsed("[a]\nn = 1\n[b]\nn = 2").size(), 2u);
}

}  // namespace
}  // namespace outrider
