// SPDX-License-Identifier: Apache-2.0
#include "common/serving/telemetry/log.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "common/base/json.h"
#include "common/base/mutex.h"
#include "common/base/output_file.h"
#include "common/base/posix.h"

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

// Whether a file begins with a line of either format.
bool begins_as_log(std::string_view content) {
  if (content.starts_with(R"({"time":")")) return true;
  constexpr std::string_view kTime = "00:00:00.000 ";
  return content.size() > kTime.size() &&
         std::equal(kTime.begin(), kTime.end(), content.begin(), [](char pattern, char c) {
           return pattern == '0' ? c >= '0' && c <= '9' : c == pattern;
         });
}

constexpr OutputKind kLogFile{.name = "a log of Outrider",
                              .is_earlier = begins_as_log,
                              .is_state = true,
                              .is_appended = true};

Result<UniqueFd> open_log_file(const std::string& path) {
  const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY;
  UniqueFd file(open(path.c_str(), flags, 0666));
  if (file.valid()) return file;
  return not_found("log file '" + path + "' cannot be opened: " + errno_message(errno) +
                   ". Remedy: name a file in a folder that exists and may be written to, with "
                   "--log-file");
}

// A line is one write(), so that programs that share a file do not mix their lines.
class LogFile final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  LogFile(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  Status reopen() {
    OUTRIDER_ASSIGN_OR_RETURN(UniqueFd file, open_log_file(path_));
    const MutexLock lock(mu_);
    file_ = std::move(file);
    return {};
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const MutexLock lock(mu_);
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string_view rest(line.data(), line.size());
    while (!rest.empty()) {
      const ssize_t written = write(file_.get(), rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) throw spdlog::spdlog_ex(path_, errno);
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void flush_() override {}

 private:
  const std::string path_;
  Mutex mu_;  // of the formatter, too
  UniqueFd file_ OUTRIDER_GUARDED_BY(mu_);
};

struct Logging {
  // Null: stderr. Set last: a signal's thread may ask while the log is configured.
  std::atomic<std::shared_ptr<LogFile>> file;
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
  std::shared_ptr<LogFile> to_file;
  if (!options.file.empty()) {
    OUTRIDER_RETURN_IF_ERROR(OutputFile::check(options.file, kLogFile).with_context("--log-file"));
    OUTRIDER_ASSIGN_OR_RETURN(UniqueFd file, open_log_file(options.file));
    to_file = std::make_shared<LogFile>(options.file, std::move(file));
  }
  logging().logger = make_logger(to_file ? spdlog::sink_ptr(to_file) : stderr_sink(), options);
  logging().format = options.format;
  logging().file = to_file;
  return {};
}

bool reopen_log_file() {
  const std::shared_ptr<LogFile> file = logging().file;
  if (file == nullptr) return false;
  const Status reopened = file->reopen();
  log(reopened.ok() ? LogLevel::kInfo : LogLevel::kWarning,
      reopened.ok() ? "log file opened again" : "the log goes on in the file that was open",
      {{"why", reopened.ok() ? "SIGHUP" : reopened.message()}});
  return true;
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
