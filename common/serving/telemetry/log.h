// Logging: one line per event to stderr or a file, for people (text) or machines (JSON).
//
//   log(LogLevel::kInfo, "session opened", {{"session", id}, {"prompt_tokens", prompt.size()}});
//
// text: 09:41:05.123 info session opened session=7f3a prompt_tokens=12
// json: {"time":"2026-01-31T09:41:05.123+00:00","level":"info","message":"session opened",..}
//
// Text of a peer or a file goes into fields, where control characters and bytes that are not UTF-8
// are escaped. So no input can forge a line.
//
// A line that cannot be written, as to a full disk or a pipe that nobody reads, is lost and
// counted; nobody waits for it.
//
// Thread rule: log(), lost_log_lines(), reopen_log_file() and set_log_frame() from any thread;
// configure_logging() once, before other threads start. This header includes no logging library, so
// that files with libtorch's headers can log too. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

enum class LogLevel { kTrace, kDebug, kInfo, kWarning, kError, kOff };
enum class LogFormat { kText, kJson };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::string file;  // appended to, and in a folder that exists; empty: stderr
};

// "trace" .. "off", the values of --log-level.
std::optional<LogLevel> parse_log_level(std::string_view name);

// Without this call: text at kInfo to stderr. Errors: kNotFound if the file cannot be opened;
// kInvalidArgument if it holds something else than a log.
Status configure_logging(const LogOptions& options);

// Opens the log's file again by its name, for programs that rotate logs: they rename it and send
// SIGHUP. If that fails, the log goes on where it is, which is logged. False without a file.
bool reopen_log_file();

// Wraps each write to stderr; the frame calls `write` once. For a caller with an unfinished line on
// the same terminal, which it removes meanwhile; it must not log. Empty: none. Returns the previous
// frame, which is no longer in use.
using LogFrame = std::function<void(const std::function<void()>& write)>;
LogFrame set_log_frame(LogFrame frame);

// A named value beside the message.
struct LogField {
  LogField(std::string_view name, std::string_view text) : key(name), value(text), is_text(true) {}
  LogField(std::string_view name, const char* text) : LogField(name, std::string_view(text)) {}
  LogField(std::string_view name, const std::string& text)
      : LogField(name, std::string_view(text)) {}
  LogField(std::string_view name, bool truth) : key(name), value(truth ? "true" : "false") {}
  LogField(std::string_view name, double number);
  template <std::integral T>
  LogField(std::string_view name, T number) : key(name), value(std::to_string(number)) {}

  std::string_view key;
  std::string value;
  bool is_text = false;
};

bool log_enabled(LogLevel level);
// The lines that were lost since the process began.
std::uint64_t lost_log_lines();
void log(LogLevel level, std::string_view message, std::span<const LogField> fields);
inline void log(LogLevel level, std::string_view message,
                std::initializer_list<LogField> fields = {}) {
  log(level, message, std::span(fields.begin(), fields.size()));
}

namespace internal {
// The part of the line after time and level.
std::string format_log_line(LogFormat format, std::string_view message,
                            std::span<const LogField> fields);
inline std::string format_log_line(LogFormat format, std::string_view message,
                                   std::initializer_list<LogField> fields) {
  return format_log_line(format, message, std::span(fields.begin(), fields.size()));
}
}  // namespace internal

}  // namespace outrider
