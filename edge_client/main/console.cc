// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/console.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "common/telemetry/log.h"

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

}  // namespace

std::string without_controls(std::string_view text) {
  std::string clean;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    // C1 controls are two bytes in UTF-8: C2 80 to C2 9F.
    const bool c1 =
        byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c1) ++i;
    if (!control && !c1) clean += text[i];
  }
  return clean;
}

Console::Console(Options options)
    : options_(std::move(options)),
      out_is_terminal_(::isatty(STDOUT_FILENO) == 1),
      error_is_terminal_(::isatty(STDERR_FILENO) == 1),
      colors_(options_.color_accept && out_is_terminal_ && wants_colors()) {}

void Console::on_emit(const Emit& emit) {
  clear_progress();
  std::string out;
  for (const Emit::Token& token : emit.tokens) {
    if (token.text.empty()) continue;
    const std::string text = out_is_terminal_ ? without_controls(token.text) : token.text;
    if (colors_ && token.drafted) {
      out.append(kDraftedColor).append(text).append(kPlain);
    } else {
      out.append(text);
    }
  }
  if (out.empty()) return;
  line_open_ = out.back() != '\n';
  write_out(out);
}

void Console::on_say(const Say& say) {
  clear_progress();
  log(say.level == Say::Level::kWarning ? LogLevel::kWarning : LogLevel::kInfo,
      without_controls(say.line));
}

void Console::on_prefill(const PrefillProgress& progress) {
  if (!error_is_terminal_ || progress.done >= progress.total) return;
  const std::string line = "\rreading the prompt: " + std::to_string(progress.done) + " of " +
                           std::to_string(progress.total) + " tokens\033[K";
  write_all(STDERR_FILENO, line);
  progress_shown_ = true;
}

void Console::clear_progress() {
  if (!progress_shown_) return;
  write_all(STDERR_FILENO, "\r\033[K");
  progress_shown_ = false;
}

void Console::end_line() {
  clear_progress();
  if (line_open_) write_out("\n");
  line_open_ = false;
}

void Console::print_error_stream(std::string_view text) {
  write_all(STDERR_FILENO, text);
}

void Console::print_line(std::string_view text) {
  end_line();
  write_out(std::string(text) + "\n");
}

void Console::write_out(std::string_view text) {
  if (broken_ || write_all(STDOUT_FILENO, text)) return;
  broken_ = true;
  if (options_.on_broken_pipe) options_.on_broken_pipe();
}

}  // namespace outrider
