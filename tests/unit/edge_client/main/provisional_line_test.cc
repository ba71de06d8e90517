// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/provisional_line.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace outrider {
namespace {

// As much of a terminal as the line needs: wraps behind the last cell when the next letter comes,
// as xterm does. A cell is a letter, in upper case where it is dimmed.
class Screen final {
 public:
  explicit Screen(int columns) : columns_(columns) {}

  void write(const std::string& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] != '\033') {
        put(bytes[i]);
        continue;
      }
      int number = 0;
      for (i += 2; bytes[i] >= '0' && bytes[i] <= '9'; ++i) number = number * 10 + bytes[i] - '0';
      control(bytes[i], number);
    }
  }
  std::string text() const {
    std::string text;
    for (const std::string& line : lines_) text += line + "|";
    return text;
  }

 private:
  void put(char c) {
    if (c == '\n' || at_ == columns_) {
      lines_.emplace_back();
      at_ = 0;
    }
    if (c == '\n') return;
    std::string& line = lines_.back();
    line.resize(std::max(line.size(), static_cast<std::size_t>(at_) + 1), ' ');
    line[static_cast<std::size_t>(at_)] = static_cast<char>(dim_ ? std::toupper(c) : c);
    ++at_;
  }
  void control(char what, int number) {
    if (what == 'm') dim_ = number == 2;
    if (what == 'D') at_ -= number;
    if (what == 'K') lines_.back().resize(static_cast<std::size_t>(std::min(at_, columns_ - 1)));
    ASSERT_GE(at_, 0);
  }

  const int columns_;
  std::vector<std::string> lines_{""};
  int at_ = 0;  // columns_: behind the last cell
  bool dim_ = false;
};

TEST(ProvisionalLineTest, ShowsWhatTheLineHasRoomForAndTakesItBack) {
  Screen screen(12);
  ProvisionalLine line;
  screen.write("turn ");
  line.wrote("turn ", 12);
  screen.write(line.show("left\nand stop", 12));
  EXPECT_EQ(screen.text(), "turn LEFT|");
  screen.write(line.show("around now", 12));
  EXPECT_EQ(screen.text(), "turn AROUND|");
  screen.write(line.take_back());
  EXPECT_EQ(screen.text(), "turn |");
  EXPECT_EQ(line.take_back(), "");
}

TEST(ProvisionalLineTest, WhatRemainsIsTheAnswerWhereverLinesEnd) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int columns = 2 + static_cast<int>(random() % 20);
    Screen screen(columns), plain(columns);
    ProvisionalLine line;
    for (int piece = 0; piece < 40; ++piece) {
      std::string text, guess;
      for (auto n = random() % 6; n > 0; --n) text += "abcde \n"[random() % 7];
      for (auto n = random() % 30; n > 0; --n) guess += "vwxyz \n"[random() % 7];
      screen.write(line.take_back() + text);
      plain.write(text);
      line.wrote(text, columns);
      screen.write(line.show(guess, columns));
    }
    screen.write(line.take_back());
    ASSERT_EQ(screen.text(), plain.text()) << columns;
  }
}

TEST(ProvisionalLineTest, ShowsNothingWhereTheColumnIsNotCertain) {
  ProvisionalLine line;
  line.wrote("杯", 40);
  EXPECT_EQ(line.show("abc", 40), "");
  line.wrote("x\ny", 40);
  EXPECT_NE(line.show("abc", 40), "");
  EXPECT_EQ(line.show("杯子", 40), "\033[K");
  line.wrote("é – “", 40);
  EXPECT_EQ(line.show("é…", 40), "\033[2mé…\033[0m\033[2D");
  EXPECT_EQ(ProvisionalLine().show("abc", 0), "") << "no width is known";
}

}  // namespace
}  // namespace outrider
