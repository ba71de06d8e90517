// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/answer_line.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace outrider {
namespace {

// A terminal as far as the line needs one: it wraps behind the last cell when the next letter
// comes, as xterm does. A cell is a letter, in upper case where it is dimmed.
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
    if (c == '\r') at_ = 0;
    if (c == '\r') return;
    if (c == '\n' || at_ == columns_) {
      if (++row_ == lines_.size()) lines_.emplace_back();
      at_ = 0;
    }
    if (c == '\n') return;
    std::string& line = lines_[row_];
    line.resize(std::max(line.size(), static_cast<std::size_t>(at_) + 1), ' ');
    line[static_cast<std::size_t>(at_)] = static_cast<char>(dim_ ? std::toupper(c) : c);
    ++at_;
  }
  void control(char what, int number) {
    if (what == 'm') dim_ = number == 2;
    if (what == 'D') at_ -= number;
    if (what == 'A') row_ -= static_cast<std::size_t>(number);
    ASSERT_LT(row_, lines_.size());
    if (what == 'J') lines_.resize(row_ + 1);
    if (what == 'K' || what == 'J') {
      lines_[row_].resize(static_cast<std::size_t>(std::min(at_, columns_ - 1)));
    }
    ASSERT_GE(at_, 0);
  }

  const int columns_;
  std::vector<std::string> lines_{""};
  std::size_t row_ = 0;
  int at_ = 0;  // columns_: behind the last cell
  bool dim_ = false;
};

constexpr TerminalSize kNarrow{12, 24};

TEST(AnswerLineTest, ShowsWhatTheLineHasRoomForAndTakesItBack) {
  Screen screen(12);
  AnswerLine line;
  screen.write("turn ");
  line.wrote("turn ", "turn ", kNarrow);
  screen.write(line.show("left\nand stop", kNarrow));
  EXPECT_EQ(screen.text(), "turn LEFT|");
  screen.write(line.show("around now", kNarrow));
  EXPECT_EQ(screen.text(), "turn AROUND|");
  screen.write(line.take_back());
  EXPECT_EQ(screen.text(), "turn |");
  EXPECT_EQ(line.take_back(), "");
}

TEST(AnswerLineTest, WhatRemainsIsTheAnswerWhereverLinesEnd) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int columns = 2 + static_cast<int>(random() % 20);
    Screen screen(columns), plain(columns);
    AnswerLine line;
    for (int piece = 0; piece < 40; ++piece) {
      std::string text, guess;
      for (auto n = random() % 6; n > 0; --n) text += "abcde \n"[random() % 7];
      for (auto n = random() % 30; n > 0; --n) guess += "vwxyz \n"[random() % 7];
      screen.write(line.take_back() + text);
      plain.write(text);
      line.wrote(text, text, {columns, 24});
      screen.write(line.show(guess, {columns, 24}));
    }
    screen.write(line.take_back());
    ASSERT_EQ(screen.text(), plain.text()) << columns;
  }
}

TEST(AnswerLineTest, ShowsNothingWhereTheColumnIsNotCertain) {
  const TerminalSize size{40, 24};
  AnswerLine line;
  const auto wrote = [&](const char* text) { line.wrote(text, text, size); };
  wrote("杯");
  EXPECT_EQ(line.show("abc", size), "");
  wrote("x\ny");
  EXPECT_NE(line.show("abc", size), "");
  EXPECT_EQ(line.show("杯子", size), "\033[K");
  wrote("é – “");
  EXPECT_EQ(line.show("é…", size), "\033[2mé…\033[0m\033[2D");
  EXPECT_EQ(AnswerLine().show("abc", {}), "") << "no width is known";
}

// Lines of a log come at any time: they stand between whole lines of the answer.
TEST(AnswerLineTest, ALiftedLineIsDrawnAgainBelowWhateverItsLength) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const int columns = 2 + static_cast<int>(random() % 20);
    const TerminalSize size{columns, 1000};
    Screen screen(columns), plain(columns);
    AnswerLine line;
    std::string open;  // the plain screen's
    for (int piece = 0; piece < 40; ++piece) {
      std::string text;
      for (auto n = random() % 9; n > 0; --n) text += "abcde \n"[random() % 7];
      screen.write(line.take_back() + text);
      line.wrote(text, text, size);
      open += text;
      screen.write(line.show("vwxyz", size));
      if (random() % 4 != 0) continue;
      screen.write(line.lift(size) + "L\n" + line.drawn());
      const std::size_t begin = open.rfind('\n') + 1;  // npos + 1 is 0
      plain.write(open.substr(0, begin) + "L\n");
      open.erase(0, begin);
    }
    screen.write(line.take_back());
    plain.write(open);
    ASSERT_EQ(screen.text(), plain.text()) << columns;
  }
}

TEST(AnswerLineTest, WhereItsPlaceIsNotCertainNothingIsCleared) {
  AnswerLine wide;
  EXPECT_EQ(wide.lift({40, 24}), "") << "nothing is there";
  wide.wrote("杯子", "杯子", {40, 24});
  EXPECT_EQ(wide.lift({40, 24}), "\n");
  EXPECT_EQ(wide.drawn(), "杯子");
  AnswerLine high;
  const std::string text(81, 'x');
  high.wrote(text, text, {40, 2});
  EXPECT_EQ(high.lift({40, 2}), "\n") << "its begin has scrolled off";
  AnswerLine resized;
  resized.wrote("word", "word", {40, 24});
  EXPECT_EQ(resized.lift({30, 24}), "\n");
  AnswerLine coloured;
  coloured.wrote("a\nb", "a\n\033[32mb\033[0m", {40, 24});
  EXPECT_EQ(coloured.lift({40, 24}), "\r\033[J");
  EXPECT_EQ(coloured.drawn(), "\033[32mb\033[0m");
}

}  // namespace
}  // namespace outrider
