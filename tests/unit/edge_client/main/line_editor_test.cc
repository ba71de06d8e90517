// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/line_editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>

#include <cstdlib>
#include <thread>

#include "common/telemetry/log.h"

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
  // What the terminal gets until `wanted` is at its end, or for ten seconds.
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
