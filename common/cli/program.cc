// SPDX-License-Identifier: Apache-2.0
#include "common/cli/program.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "common/cli/config_reader.h"
#include "common/cli/nearest.h"

namespace outrider {
namespace {

// The whole of `text` as a number.
template <typename T>
std::optional<T> read_number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

// CLI11 takes octal and hexadecimal integers, -1 as unsigned, nan, inf and 1e400. These checks
// leave what people mean.
template <typename T>
std::string check_integer(const std::string& text) {
  const std::size_t digits = text.starts_with('-') ? 1 : 0;
  const bool octal = text.size() > digits + 1 && text[digits] == '0';
  if (read_number<T>(text).has_value() && !octal) return "";
  return "'" + text + "' is not a whole number" +
         (std::is_unsigned_v<T> ? " from 0 up, in decimal digits" : " in decimal digits");
}
std::string check_float(const std::string& text) {
  const std::optional<double> value = read_number<double>(text);
  if (value.has_value() && std::abs(*value) <= std::numeric_limits<float>::max()) return "";
  return "'" + text + "' is not a finite decimal number";
}

std::string environment_name(const std::string& flag) {
  std::string name = "OUTRIDER_";
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

// Gives every option its environment variable and every number its strict reading.
void harden(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    if (!option->get_configurable() || option->get_lnames().empty()) continue;
    option->envname(environment_name(option->get_lnames().front()));
    const std::string type = option->get_type_name();
    if (type.starts_with("INT")) option->check(check_integer<std::int64_t>, "", "");
    if (type.starts_with("UINT")) option->check(check_integer<std::uint64_t>, "", "");
    if (type.starts_with("FLOAT")) option->check(check_float, "", "");
  }
}

}  // namespace

Program::Program(const std::string& name, const std::string& description)
    : app_(description, name) {
  app_.option_defaults()->always_capture_default();
  app_.set_version_flag("--version", name + " " + version(), "Print the version");
  const char* file = std::getenv("OUTRIDER_CONFIG");
  const std::string config = file == nullptr ? "" : file;
  app_.set_config("--config", config, "Read flags from this file", !config.empty())
      ->envname("OUTRIDER_CONFIG")
      ->configurable(false);
  app_.config_formatter(std::make_shared<ConfigReader>(app_));
  app_.add_flag("--print-config", print_config_wanted_,
                "Print the flags in effect as a --config file")
      ->configurable(false);
  app_.add_option("--log-level", log_level_, "What is logged to stderr")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}))
      ->group("Logging");
  app_.add_option("--log-format", log_format_, "For people or for machines")
      ->check(CLI::IsMember({"text", "json"}))
      ->group("Logging");
  app_.add_option("--log-file", log_.file, "Log to this file instead")->group("Logging");
}

std::string Program::version() {
  return OUTRIDER_VERSION;
}

std::optional<int> Program::parse(int argc, const char* const* argv) {
  harden(app_);
  for (CLI::App* command : app_.get_subcommands([](CLI::App*) { return true; })) {
    command->fallthrough();  // so that --config and --log-level may follow the command
    // Only the command that was named: two commands may fill the same variable.
    command->preparse_callback([command](std::size_t) { harden(*command); });
  }
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return handle_parse_error(error);
  }
  if (print_config_wanted_) {
    print_config();
    return kExitOk;
  }
  log_.level = *parse_log_level(log_level_);
  log_.format = log_format_ == "json" ? LogFormat::kJson : LogFormat::kText;
  if (Status status = configure_logging(log_); !status.ok()) return finish(status);
  return std::nullopt;
}

int Program::finish(const Status& status) const {
  if (status.ok()) return kExitOk;
  std::fprintf(stderr, "%s: %s\n", app_.get_name().c_str(), status.to_string().c_str());
  return status.code() == StatusCode::kInvalidArgument ? kExitUsage : kExitRuntime;
}

int Program::usage_error(const std::string& message) const {
  std::fprintf(stderr, "%s: %s\nTry '%s --help'.\n", app_.get_name().c_str(), message.c_str(),
               app_.get_name().c_str());
  return kExitUsage;
}

int Program::handle_parse_error(const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app_.exit(error);
  if (print_config_wanted_ && error.get_name() == "RequiredError") {
    print_config();
    return kExitOk;
  }
  const std::vector<std::string> extras = app_.remaining(true);
  if (extras.empty()) return usage_error(error.what());
  // Something was not understood: that is the error, whatever else is missing because of it.
  const std::string word = extras.front().substr(0, extras.front().find('='));
  std::vector<std::string> known;
  if (word.starts_with("-")) {
    const auto add_flags = [&known](const CLI::App& app) {
      for (const std::string& flag : flag_names(app)) known.push_back("--" + flag);
    };
    add_flags(app_);
    for (const CLI::App* command : app_.get_subcommands()) add_flags(*command);
  } else if (app_.get_subcommands().empty()) {
    for (const CLI::App* command : app_.get_subcommands([](CLI::App*) { return true; })) {
      known.push_back(command->get_name());
    }
  }
  const std::string match = nearest_match(word, known);
  return usage_error("unknown argument '" + word + "'" +
                     (match.empty() ? "" : ". Did you mean '" + match + "'?"));
}

void Program::print_config() const {
  std::fputs(app_.config_to_str(true, false).c_str(), stdout);
}

}  // namespace outrider
