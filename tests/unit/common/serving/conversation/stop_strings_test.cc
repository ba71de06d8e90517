// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace outrider {
namespace {

// The text that is shown when `text` arrives in pieces of `size` bytes.
std::string shown(const std::vector<std::string>& strings, std::string_view text,
                  std::size_t size) {
  StopStrings stops = *StopStrings::create(strings);
  std::string out;
  for (std::size_t at = 0; at < text.size() && !stops.stopped(); at += size) {
    out += stops.push(text.substr(at, size));
  }
  return out + stops.finish();
}

TEST(StopStrings, EndsTheTextBeforeTheFirstMatchHoweverItIsCut) {
  for (std::size_t size = 1; size < 20; ++size) {
    EXPECT_EQ(shown({"END"}, "one END two END", size), "one ");
    EXPECT_EQ(shown({"END"}, "one EN", size), "one EN");
    EXPECT_EQ(shown({"aab"}, "aaaab", size), "aa");
    EXPECT_EQ(shown({"abcd", "bc"}, "xabcd", size), "xa");  // complete first
    EXPECT_EQ(shown({"bc", "abc"}, "xabcd", size), "x");    // longest of those
    EXPECT_EQ(shown({}, "nothing stops", size), "nothing stops");
  }
}

TEST(StopStrings, HoldsBackOnlyWhatMayBeAStopString) {
  StopStrings stops = *StopStrings::create({"\nUser:"});
  EXPECT_EQ(stops.push("hi\nUs"), "hi");
  EXPECT_EQ(stops.push("a"), "\nUsa");
  EXPECT_EQ(stops.push("\nUser: x"), "");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.matched(), "\nUser:");
  EXPECT_EQ(stops.push("more"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, RefusesStringsThatCannotBeMeant) {
  EXPECT_FALSE(StopStrings::create({""}).ok());
  EXPECT_FALSE(StopStrings::create({"\xff"}).ok());
  EXPECT_FALSE(StopStrings::create({std::string(5000, 'a')}).ok());
  EXPECT_FALSE(StopStrings::create(std::vector<std::string>(65, "a")).ok());
}

// The definition, computed slowly: the first end of any stop string, from the longest that ends
// there.
std::string expected(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop)) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopStrings, AgreesWithTheDefinitionOnRandomTexts) {
  std::mt19937 random(7);
  const auto word = [&](std::size_t length) {
    std::string out;
    for (std::size_t i = 0; i < length; ++i) out += static_cast<char>('a' + random() % 2);
    return out;
  };
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> stops = {word(1 + random() % 6), word(3 + random() % 6)};
    const std::string text = word(random() % 30);
    EXPECT_EQ(shown(stops, text, 1 + random() % 5), expected(stops, text))
        << text << " / " << stops[0] << " / " << stops[1];
  }
}

}  // namespace
}  // namespace outrider
