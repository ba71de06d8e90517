// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/console.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "common/base/json.h"
#include "common/base/posix.h"
#include "common/serving/telemetry/log.h"

namespace outrider {
namespace {

constexpr std::string_view kDraftedColor = "\033[32m";
constexpr std::string_view kPlain = "\033[0m";

bool wants_colors() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// The size of the terminal behind stdout.
TerminalSize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

bool is_one_terminal(int file, int other) {
  struct stat a {
  }, b{};
  return ::isatty(file) == 1 && ::fstat(file, &a) == 0 && ::fstat(other, &b) == 0 &&
         a.st_rdev == b.st_rdev;
}

// Bytes of the control character that `text` begins with; 0: it begins with none.
std::size_t control_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  if (byte(0) == '\n' || byte(0) == '\t') return 0;
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  // C1: U+0080 to U+009F.
  if (byte(0) == 0xc2) return byte(1) >= 0x80 && byte(1) < 0xa0 ? 2 : 0;
  // Embeddings, overrides and isolates, U+202A to U+202E and U+2066 to U+2069: left open, they
  // turn round what follows the answer. Right-to-left letters and marks need none of them.
  if (byte(0) != 0xe2) return 0;
  const bool embeds = byte(1) == 0x80 && byte(2) >= 0xaa && byte(2) <= 0xae;
  const bool isolates = byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;
  return embeds || isolates ? 3 : 0;
}

}  // namespace

std::string without_controls(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t control = control_length(text);
    if (control == 0) clean += text.front();
    text.remove_prefix(std::max<std::size_t>(control, 1));
  }
  return clean;
}

Console::Console(Options options)
    : options_(std::move(options)),
      out_is_terminal_(::isatty(STDOUT_FILENO) == 1),
      error_is_terminal_(::isatty(STDERR_FILENO) == 1),
      one_terminal_(is_one_terminal(STDOUT_FILENO, STDERR_FILENO)),
      colors_(options_.color_accept && out_is_terminal_ && wants_colors()),
      provisional_(options_.show_provisional && out_is_terminal_ && wants_colors()) {
  if (error_is_terminal_) set_log_frame([this](const auto& write) { frame(write); });
}

Console::~Console() {
  if (error_is_terminal_) set_log_frame({});
}

void Console::frame(const std::function<void()>& write_log_line) {
  const MutexLock lock(mu_);
  clear_progress();
  if (one_terminal_) write_all(STDOUT_FILENO, line_.lift(terminal_size()));
  write_log_line();
  if (one_terminal_) write_all(STDOUT_FILENO, line_.drawn());
}

void Console::on_emit(const Emit& emit) {
  const MutexLock lock(mu_);
  clear_progress();
  std::string out, plain;
  for (const Emit::Token& token : emit.tokens) {
    if (token.text.empty()) continue;
    const std::string text = out_is_terminal_ ? without_controls(token.text) : token.text;
    plain += text;
    if (colors_ && token.drafted) {
      out.append(kDraftedColor).append(text).append(kPlain);
    } else {
      out.append(text);
    }
  }
  if (out.empty()) return;
  line_open_ = out.back() != '\n';
  write_out(line_.take_back() + out);
  if (out_is_terminal_) line_.wrote(plain, out, terminal_size());
}

// A terminal of which nobody knows the width gets nothing, unless a deadline is kept.
void Console::on_provisional(const Provisional& guess) {
  if (guess.by_deadline) {
    on_say({Say::Level::kInfo,
            std::string("deadline: unverified, ") +
                (guess.whole ? "to the end" : "not to the end") + ": " +
                Json(guess.text).dump(-1, ' ', false, Json::error_handler_t::replace)});
  }
  if (!provisional_) return;
  const MutexLock lock(mu_);
  clear_progress();
  write_out(line_.show(without_controls(guess.text), terminal_size()));
}

void Console::on_say(const Say& say) {
  log(say.level == Say::Level::kWarning ? LogLevel::kWarning : LogLevel::kInfo,
      without_controls(say.line));
}

void Console::on_prefill(const PrefillProgress& progress) {
  if (!error_is_terminal_ || progress.done >= progress.total) return;
  const std::string line = "\rreading the prompt: " + std::to_string(progress.done) + " of " +
                           std::to_string(progress.total) + " tokens\033[K";
  const MutexLock lock(mu_);
  if (one_terminal_ && !progress_shown_) write_out(line_.lift(terminal_size()));
  write_all(STDERR_FILENO, line);
  progress_shown_ = true;
}

void Console::clear_progress() {
  if (!progress_shown_) return;
  write_all(STDERR_FILENO, "\r\033[K");
  if (one_terminal_) write_out(line_.drawn());
  progress_shown_ = false;
}

void Console::end_line() {
  const MutexLock lock(mu_);
  close_line();
}

void Console::close_line() {
  clear_progress();
  write_out(line_.take_back());
  if (line_open_) write_out("\n");
  line_open_ = false;
  line_.begin_line();
}

void Console::print_error_stream(std::string_view text) {
  write_all(STDERR_FILENO, text);
}

void Console::print_line(std::string_view text) {
  const MutexLock lock(mu_);
  close_line();
  write_out(std::string(text) + "\n");
}

void Console::write_out(std::string_view text) {
  if (text.empty() || !output_.ok() || write_all(STDOUT_FILENO, text)) return;
  output_ = unavailable("stdout: " + errno_message(errno));
  if (options_.on_broken_pipe) options_.on_broken_pipe();
}

}  // namespace outrider
