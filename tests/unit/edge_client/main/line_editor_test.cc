// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/line_editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "common/serving/telemetry/log.h"

#ifdef OUTRIDER_SANITIZED
// The line editor's library keeps the names of added functions for good, and the terminal's library
// forgets old descriptions of terminals after four.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:wcsdup\nleak:_nc_trim_sgr0\n";
}
#endif

namespace outrider {
namespace {

using testing::HasSubstr;

// A pseudo-terminal of 20 columns with an editor on it.
class LineEditorTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TERM", "xterm", 1);
    winsize size{.ws_row = 24, .ws_col = 20, .ws_xpixel = 0, .ws_ypixel = 0};
    int keyboard = -1, program = -1;
    ASSERT_EQ(::openpty(&keyboard, &program, nullptr, nullptr, &size), 0);
    keyboard_ = UniqueFd(keyboard);
    in_ = ::fdopen(program, "r");
    out_ = ::fdopen(::dup(program), "w");
    editor_ = LineEditor::create("> ", in_, out_);
    ASSERT_NE(editor_, nullptr);
  }
  void TearDown() override {
    editor_.reset();
    std::fclose(in_);
    std::fclose(out_);
  }
  void type(const std::string& keys) {
    ASSERT_EQ(::write(keyboard_.get(), keys.data(), keys.size()),
              static_cast<ssize_t>(keys.size()));
  }
  // The output that the terminal gets until `wanted` is at its end, or for ten seconds.
  std::string shown_until(const std::string& wanted) {
    std::string shown;
    pollfd file{.fd = keyboard_.get(), .events = POLLIN, .revents = 0};
    while (!shown.ends_with(wanted) && ::poll(&file, 1, 10'000) == 1) {
      char byte = 0;
      if (::read(keyboard_.get(), &byte, 1) != 1) break;
      shown += byte;
    }
    return shown;
  }

  // The line that the keys make; the screen is read meanwhile.
  std::optional<std::string> line_of(const std::string& keys) {
    std::optional<std::string> line;
    std::thread reader([&] { line = editor_->read_line(); });
    shown_until("> ");
    type(keys);
    shown_until("\033[?2004l");
    reader.join();
    return line;
  }

  UniqueFd keyboard_;
  std::FILE* in_ = nullptr;
  std::FILE* out_ = nullptr;
  std::unique_ptr<LineEditor> editor_;
};

TEST_F(LineEditorTest, ALineOfTheLogStandsAboveWhatIsTyped) {
  std::optional<std::string> line;
  std::thread reader([&] { line = editor_->read_line(); });
  shown_until("> ");
  type("a word of 31 letters, as it were");  // two rows
  shown_until("it were");
  testing::internal::CaptureStderr();
  log(LogLevel::kWarning, "from another thread");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("from another thread"));
  const std::string shown = shown_until("it were");
  EXPECT_TRUE(shown.starts_with("\033[1A\r\033[J")) << "both rows are cleared";
  EXPECT_THAT(shown, HasSubstr("> a word of"));
  type("!\r");
  reader.join();
  EXPECT_EQ(line, "a word of 31 letters, as it were!");
}

TEST_F(LineEditorTest, KeysThatMeanNothingHereLeaveNothingInTheLine) {
  std::vector<std::string> keys = {
      "\033[5~", "\033[6~", "\033[2~", "\033[[A", "\033[[E",           "\033OP",
      "\033OS",  "\033O2P", "\033[Z",  "\033[I",  "\033[200~\033[201~"};
  for (const int number : {11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 23, 24, 25, 34}) {
    keys.push_back("\033[" + std::to_string(number) + "~");
    keys.push_back("\033[" + std::to_string(number) + ";5~");
  }
  for (const char letter : {'P', 'Q', 'R', 'S'}) keys.push_back(std::string("\033[1;2") + letter);
  for (const std::string& key : keys) EXPECT_EQ(line_of("ab" + key + "c\r"), "abc") << key;
}

TEST_F(LineEditorTest, KeysMoveAndDeleteAsEachTerminalWritesThem) {
  for (const char* const begin : {"\033[H", "\033OH", "\033[1~", "\033[7~", "\033[1;2H", "\001"}) {
    EXPECT_EQ(line_of(std::string("bc") + begin + "a\r"), "abc") << begin;
    for (const char* const end : {"\033[F", "\033OF", "\033[4~", "\033[8~", "\033[1;5F", "\005"}) {
      EXPECT_EQ(line_of(std::string("ab") + begin + end + "c\r"), "abc") << begin << end;
    }
    for (const char* const remove : {"\033[3~", "\033[3;5~"}) {
      EXPECT_EQ(line_of(std::string("xab") + begin + remove + "\r"), "ab") << begin << remove;
    }
  }
  for (const char* const word : {"\033[1;5D", "\033[1;3D", "\033b"}) {
    EXPECT_EQ(line_of(std::string("one two") + word + "x\r"), "one xtwo") << word;
  }
  for (const char* const word : {"\033[1;5C", "\033[1;3C", "\033f"}) {
    EXPECT_EQ(line_of(std::string("one two\001") + word + "x\r"), "onex two") << word;
  }
  EXPECT_EQ(line_of("\033[3~\033\033[5~a\r"), "a")
      << "Delete in an empty line does not end the chat";
}

TEST_F(LineEditorTest, SeveralPastedLinesAreOne) {
  EXPECT_EQ(line_of("\033[200~def f():\r\treturn 'ü'\r\n~\033[31mx\033[201~!\r"),
            "def f():\n\treturn 'ü'\n\n~x!");
  EXPECT_EQ(line_of("\033[A\r"), "def f():\n\treturn 'ü'\n\n~x!") << "the history has it whole";
  const std::string long_text(5000, 'x');
  EXPECT_EQ(line_of("a\033[200~" + long_text + "\033[201~b\r"), "a" + long_text + "b");
}

TEST_F(LineEditorTest, PastesAreMarkedOnlyWhileALineIsRead) {
  std::thread reader([&] { editor_->read_line(); });
  EXPECT_THAT(shown_until("> "), HasSubstr("\033[?2004h"));
  type("a\r");
  EXPECT_THAT(shown_until("\033[?2004l"), HasSubstr("\033[?2004l"));
  reader.join();
}

TEST_F(LineEditorTest, ALineOfTheLogLiftsAllRowsOfAPaste) {
  std::thread reader([&] { editor_->read_line(); });
  shown_until("> ");
  type("\033[200~one\rtwo is of more than 20 letters\rthree\033[201~");
  shown_until("three");
  testing::internal::CaptureStderr();
  log(LogLevel::kWarning, "from another thread");
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(shown_until("three").starts_with("\033[3A\r\033[J"));
  type("\r");
  reader.join();
}

TEST_F(LineEditorTest, StopEndsALineThatIsTyped) {
  std::optional<std::string> line = "";
  std::thread reader([&] { line = editor_->read_line(); });
  shown_until("> ");
  type("half");
  shown_until("half");
  editor_->stop();
  reader.join();
  EXPECT_EQ(line, std::nullopt);
}

TEST(LineEditor, NeedsATerminal) {
  std::FILE* const file = std::fopen("/dev/null", "r+");
  EXPECT_EQ(LineEditor::create("> ", file, file), nullptr);
  std::fclose(file);
}

}  // namespace
}  // namespace outrider
