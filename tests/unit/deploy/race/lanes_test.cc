// SPDX-License-Identifier: Apache-2.0
#include "deploy/race/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace outrider {
namespace {

using testing::ElementsAre;

TEST(LanesTest, TheEndOfEachTextStandsBesideItsName) {
  Lanes lanes({"ar", "mirror"}, 18);
  lanes.add(0, "go to\n");
  lanes.add(0, "the door");
  EXPECT_THAT(lanes.lines(), ElementsAre("ar      o the door", "mirror  "));
  lanes.add(1, "go to the door now");
  EXPECT_EQ(lanes.lines()[1], "mirror  e door now");
}

TEST(LanesTest, FiguresBehindTheAnswerAreNotShown) {
  Lanes lanes({"ar"}, 80);
  lanes.add(0, "done.\n{\"te");
  lanes.add(0, "xt\":\"done.\"}\n");
  EXPECT_EQ(lanes.lines()[0], "ar  done.");
}

TEST(LanesTest, NothingMovesTheCursorAndNoCharacterIsCut) {
  EXPECT_EQ(text_tail("a\x1b[2J\r\tb", 20), "a [2J  b");
  EXPECT_EQ(text_tail("x\u00e9y", 2), "y") << "the cut falls into the middle of a character";
  EXPECT_EQ(text_tail("x\u00e9y", 3), "\u00e9y");
  EXPECT_EQ(text_tail("abc", 0), "");
}

TEST(LanesTest, LanesGrowFromThreadsOfTheirOwn) {
  Lanes lanes({"a", "b"}, 1000);
  std::thread other([&] {
    for (int i = 0; i < 500; ++i) lanes.add(1, "b");
  });
  for (int i = 0; i < 500; ++i) {
    lanes.add(0, "a");
    lanes.lines();
  }
  other.join();
  EXPECT_EQ(lanes.lines()[0].size(), 3u + 500u);
  EXPECT_EQ(lanes.lines()[1].size(), 3u + 500u);
}

}  // namespace
}  // namespace outrider
