// SPDX-License-Identifier: Apache-2.0
#include "common/telemetry/log.h"

#include <poll.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "common/base/json.h"
#include "common/base/mutex.h"

namespace outrider {
namespace {

constexpr std::array<std::pair<std::string_view, LogLevel>, 6> kLevels = {
    {{"trace", LogLevel::kTrace},
     {"debug", LogLevel::kDebug},
     {"info", LogLevel::kInfo},
     {"warning", LogLevel::kWarning},
     {"error", LogLevel::kError},
     {"off", LogLevel::kOff}}};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

std::atomic<std::uint64_t> lost_lines{0};

// Whether a write to stderr returns at once. Where the reader of a pipe or a terminal has stopped,
// a write would wait for it for ever: the first line behind a full pipe waits for kGrace, later
// ones not at all until somebody reads again.
bool stderr_takes_a_line() {
  constexpr int kGraceMs = 250;
  static std::atomic<bool> is_stuck{false};
  pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  const bool takes = poll(&out, 1, is_stuck.load() ? 0 : kGraceMs) != 0;
  is_stuck.store(!takes);
  return takes;
}

// Says so on stderr once in a while, as the log cannot.
void count_lost_line(const std::string& why) {
  const std::uint64_t lost = lost_lines.fetch_add(1, std::memory_order_relaxed) + 1;
  if (std::has_single_bit(lost) && stderr_takes_a_line()) {
    std::fprintf(stderr, "lines of the log lost: %llu: %s\n", static_cast<unsigned long long>(lost),
                 why.c_str());
  }
}

std::shared_ptr<spdlog::logger> make_logger(spdlog::sink_ptr sink, const LogOptions& options) {
  auto logger = std::make_shared<spdlog::logger>("outrider", std::move(sink));
  logger->set_level(to_spdlog(options.level));
  logger->set_pattern(options.format == LogFormat::kJson
                          ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})"
                          : "%H:%M:%S.%e %^%l%$ %v");
  logger->flush_on(spdlog::level::info);
  logger->set_error_handler(count_lost_line);
  return logger;
}

struct Frame {
  Mutex mu;
  LogFrame around OUTRIDER_GUARDED_BY(mu);
};

// Never destroyed, like logging() below.
Frame& frame() {
  static auto* const instance = new Frame;
  return *instance;
}

class FramedStderr final : public spdlog::sinks::stderr_color_sink_mt {
 public:
  void log(const spdlog::details::log_msg& message) override {
    if (!stderr_takes_a_line()) throw spdlog::spdlog_ex("nobody reads stderr");
    const auto write = [&] { spdlog::sinks::stderr_color_sink_mt::log(message); };
    Frame& framed = frame();
    const MutexLock lock(framed.mu);
    if (framed.around) {
      framed.around(write);
    } else {
      write();
    }
  }
};

spdlog::sink_ptr stderr_sink() {
  auto sink = std::make_shared<FramedStderr>();
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') sink->set_color_mode(spdlog::color_mode::never);
  return sink;
}

struct Logging {
  std::shared_ptr<spdlog::logger> logger = make_logger(stderr_sink(), LogOptions{});
  LogFormat format = LogFormat::kText;
};

// Never destroyed: threads may log while the process ends.
Logging& logging() {
  static auto* const instance = new Logging;
  return *instance;
}

// A JSON string; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Plain text unchanged, other text as a JSON string.
std::string text_value(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte >= 0x7f || c == '"' || c == '=') return json_string(text);
  }
  return text.empty() ? "\"\"" : std::string(text);
}

std::string without_control_characters(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  }
  return result;
}

}  // namespace

LogField::LogField(std::string_view name, double number) : key(name) {
  if (!std::isfinite(number)) {
    value = std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
    is_text = true;
    return;
  }
  std::array<char, 32> digits{};
  // Nine digits: bills are summed from these lines, and six digits would lose a cent of 10,000
  // dollars.
  std::snprintf(digits.data(), digits.size(), "%.9g", number);
  value = digits.data();
}

std::optional<LogLevel> parse_log_level(std::string_view name) {
  for (const auto& [known, level] : kLevels) {
    if (known == name) return level;
  }
  return std::nullopt;
}

Status configure_logging(const LogOptions& options) {
  try {
    spdlog::sink_ptr sink = options.file.empty()
                                ? stderr_sink()
                                : std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file);
    logging().logger = make_logger(std::move(sink), options);
    logging().format = options.format;
  } catch (const spdlog::spdlog_ex& error) {
    return not_found("log file '" + options.file + "' cannot be opened: " + error.what() +
                     ". Remedy: name a file in a writable folder with --log-file");
  }
  return {};
}

LogFrame set_log_frame(LogFrame around) {
  Frame& framed = frame();
  const MutexLock lock(framed.mu);
  return std::exchange(framed.around, std::move(around));
}

bool log_enabled(LogLevel level) {
  return logging().logger->should_log(to_spdlog(level));
}

std::uint64_t lost_log_lines() {
  return lost_lines.load(std::memory_order_relaxed);
}

void log(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (!log_enabled(level)) return;
  const Logging& current = logging();
  current.logger->log(to_spdlog(level), "{}",
                      internal::format_log_line(current.format, message, fields));
}

std::string internal::format_log_line(LogFormat format, std::string_view message,
                                      std::span<const LogField> fields) {
  const bool json = format == LogFormat::kJson;
  std::string line =
      json ? "\"message\":" + json_string(message) : without_control_characters(message);
  for (const LogField& field : fields) {
    line += json ? "," + json_string(field.key) + ":" : " " + std::string(field.key) + "=";
    if (!field.is_text) {
      line += field.value;
    } else {
      line += json ? json_string(field.value) : text_value(field.value);
    }
  }
  return line;
}

}  // namespace outrider
