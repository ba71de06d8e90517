// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/program.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <limits>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/output_file.h"
#include "common/base/posix.h"
#include "common/serving/cli/config_reader.h"
#include "common/serving/cli/nearest.h"
#include "common/serving/cli/reference.h"

namespace outrider {
namespace {

constexpr std::string_view kPrintCompletion = "--print-completion";
constexpr std::string_view kPrintMan = "--print-man";

// Written by end_for_lack(), which may allocate nothing. One program a process.
std::string& words_before() {
  static std::string name;
  return name;
}

[[noreturn]] void end_with(const char* words) {
  const std::string& name = words_before();
  const std::array<iovec, 3> parts = {{{const_cast<char*>(name.data()), name.size()},
                                       {const_cast<char*>(words), std::strlen(words)},
                                       {const_cast<char*>("\n"), 1}}};
  if (writev(STDERR_FILENO, parts.data(), static_cast<int>(parts.size())) < 0) {
    // Nobody hears it.
  }
  std::_Exit(kExitRuntime);
}

// A mapped file was cut short in the moment in which it was read.
void end_for_cut_file(int /*signal*/) {
  end_with(
      "a file in use was cut short, or its disk failed (SIGBUS). Remedy: replace files by "
      "renaming, "
      "and start anew with whole ones");
}

// An exception that nobody takes. A thread or memory that the system refuses is no fault of this
// program's: it says so and ends, wherever it was. Anything else is a fault, and leaves a core.
[[noreturn]] void end_for_lack() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    end_with("out of memory. Remedy: a smaller context or model, or a higher limit of memory");
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      end_with(
          "the system refuses another thread. Remedy: a higher limit of tasks (ulimit -u, "
          "systemd's "
          "TasksMax, a container's pids limit) or of memory (ulimit -v), or fewer --threads");
    }
  } catch (...) {
    std::abort();
  }
  std::abort();
}

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

// The parts that only the laboratory's programs have (bench/lab): flags, and values of flags.
struct Laboratory {
  std::string_view program;
  std::vector<std::string_view> flags;
  std::vector<std::string_view> values = {};
};

// Where what an error names is to be found; empty: nowhere. flag: empty if it is known.
std::string laboratory_hint(std::string_view flag, std::string_view error) {
  static const Laboratory kLaboratories[] = {
      {"outrider-lab-edge",
       {"--client-queue", "--flash-bandwidth", "--pace-step-ms", "--tree-widths"},
       {"specedge", "ssd", "picospec", "fixed", "top-n"}},
      {"outrider-lab-server",
       {"--exit-score", "--hold", "--pace-exit-cost", "--pace-pass-ms", "--server-queue"}}};
  for (const Laboratory& laboratory : kLaboratories) {
    const bool has_value = std::ranges::any_of(laboratory.values, [&](std::string_view value) {
      return error.find(": " + std::string(value) + " not in ") != std::string_view::npos;
    });
    if (has_value || std::ranges::find(laboratory.flags, flag) != laboratory.flags.end()) {
      return ". " + std::string(laboratory.program) + " has it";
    }
  }
  return "";
}

// Fails if the output could not be written: a disk may be full, a reader gone.
Status flush_output() {
  std::cout.flush();
  if (std::fflush(stdout) != 0) return unavailable("stdout: " + errno_message(errno));
  if (std::ferror(stdout) == 0 && std::cout.good()) return {};
  return unavailable("stdout could not be written to");
}

std::string environment_name(const std::string& flag) {
  std::string name = "OUTRIDER_";
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

// The option of a flag as it stands on the command line, of the program or of a command that was
// named; null if there is none.
const CLI::Option* option_of(const CLI::App& app, const std::vector<std::string>& arguments,
                             const std::string& flag) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->check_name(flag)) return option;
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (std::ranges::find(arguments, command->get_name()) == arguments.end()) continue;
    if (const CLI::Option* option = option_of(*command, arguments, flag)) return option;
  }
  return nullptr;
}

// The part that CLI11 would read as nobody meant it; empty if there is none.
//
// -hf is -h -f to it, and -md is -m with the value d: flags that people know from other programs
// would do what nobody asked for. Only a number may stand behind a short flag without a blank. And
// a flag whose value was forgotten takes the next flag for it.
std::string misread_argument(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::string waiting;  // a flag whose value comes next
  for (const std::string& argument : arguments) {
    if (argument == "--") return "";
    const CLI::Option* option =
        argument.starts_with('-') ? option_of(app, arguments, argument) : nullptr;
    if (!waiting.empty()) {
      if (option != nullptr && argument.starts_with("--")) {
        std::string said = waiting;
        said.append(" needs a value, and ").append(argument).append(" follows. A value that ");
        said.append("begins so stands behind a =, as in ").append(waiting).append("=");
        return said.append(argument);
      }
      waiting.clear();
      continue;
    }
    const bool is_short = argument.size() > 1 && argument[0] == '-' && std::isalpha(argument[1]);
    if (is_short && argument.size() > 2 && argument[2] != '=' &&
        option_of(app, arguments, argument.substr(0, 2)) != nullptr &&
        !read_number<double>(argument.substr(2))) {
      return "unknown argument '" + argument +
             "'. A short flag and its value stand apart, as in -" + argument[1] + " VALUE";
    }
    if (option == nullptr || option->get_items_expected_min() == 0) continue;
    const std::vector<std::string>& names = option->get_lnames();
    waiting = names.empty() ? argument : "--" + names.front();
  }
  return "";
}

// Kubernetes sets OUTRIDER_PORT=tcp://10.0.0.1:8001 for a Service named outrider, and
// OUTRIDER_HTTP_PORT for one named outrider-http: no flag's value. Returns them, and unsets them.
std::vector<std::string> drop_service_links() {
  std::vector<std::string> links;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::string_view name = variable.substr(0, variable.find('='));
    if (name.starts_with("OUTRIDER_") && name.ends_with("_PORT") &&
        variable.find("://") != std::string_view::npos) {
      links.emplace_back(variable);
    }
  }
  for (const std::string& link : links) unsetenv(link.substr(0, link.find('=')).c_str());
  return links;
}

void hide_rarely_needed(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    if (option->get_group().ends_with(kRarelyNeeded)) option->group("");
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    hide_rarely_needed(*command);
  }
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

CLI::Option* add_force_flag(CLI::App& command) {
  return command
      .add_flag_callback("--force", allow_replacing,
                         "Replace files that are no earlier output of this command; what it reads "
                         "is never replaced")
      ->configurable(false);
}

Program::Program(const std::string& name, const std::string& description)
    : app_(description, name), config_(std::make_shared<ConfigReader>(app_)) {
  std::signal(SIGPIPE, SIG_IGN);
  words_before() = name + ": ";
  std::set_terminate(end_for_lack);
  std::signal(SIGBUS, end_for_cut_file);
  app_.option_defaults()->always_capture_default();
  app_.set_help_flag("-h,--help", "Print the flags that are usually needed");
  app_.set_help_all_flag("--help-all", "Print all flags");
  app_.set_version_flag("--version", name + " " + version(), "Print the version");
  const char* file = std::getenv("OUTRIDER_CONFIG");
  const std::string config = file == nullptr ? "" : file;
  app_.set_config("--config", config, "Read flags from this file", !config.empty())
      ->envname("OUTRIDER_CONFIG")
      ->configurable(false);
  app_.config_formatter(config_);
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
  arguments_.assign(argv + std::min(argc, 1), argv + argc);
  if (asks_for_reference(argc, argv)) return print_reference();
  const std::vector<std::string> service_links = drop_service_links();
  harden(app_);
  for (CLI::App* command : app_.get_subcommands([](CLI::App*) { return true; })) {
    command->fallthrough();  // so that --config and --log-level may follow the command
    // Only the command that was named: two commands may fill the same variable.
    command->preparse_callback([command](std::size_t) { harden(*command); });
  }
  if (const std::string misread = misread_argument(app_, arguments_); !misread.empty()) {
    return usage_error(misread);
  }
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return handle_parse_error(error);
  }
  if (print_config_wanted_) return print_config();
  log_.level = *parse_log_level(log_level_);
  log_.format = log_format_ == "json" ? LogFormat::kJson : LogFormat::kText;
  if (Status status = configure_logging(log_); !status.ok()) return finish(status);
  for (const std::string& link : service_links) {
    log(LogLevel::kWarning,
        link.substr(0, link.find('=')) +
            " is passed over: Kubernetes sets it for a Service of that name "
            "(enableServiceLinks: false keeps it out)",
        {{"value", link}});
  }
  return std::nullopt;
}

int Program::finish(const Result<int>& code) const {
  const Status written = flush_output();
  if (!code.ok()) return finish(code.status());
  return written.ok() || *code != kExitOk ? *code : finish(written);
}

int Program::finish(const Status& status) const {
  if (status.ok()) {
    const Status written = flush_output();
    return written.ok() ? kExitOk : finish(written);
  }
  std::fprintf(stderr, "%s: %s\n", app_.get_name().c_str(), status.to_string().c_str());
  return status.code() == StatusCode::kInvalidArgument ? kExitUsage : kExitRuntime;
}

int Program::usage_error(const std::string& message) const {
  std::string with_command = app_.get_name();
  for (const CLI::App* command : app_.get_subcommands([](const CLI::App*) { return true; })) {
    if (!arguments_.empty() && arguments_[0] == command->get_name()) {
      with_command += " " + arguments_[0];
    }
  }
  std::fprintf(stderr, "%s: %s\nTry '%s --help'.\n", app_.get_name().c_str(), message.c_str(),
               with_command.c_str());
  return kExitUsage;
}

// Says which place set the value: CLI11 names the flag, also for what the environment or the
// file says.
std::string Program::with_source(const std::string& message) const {
  const std::size_t begin = message.find("--");
  if (begin == std::string::npos) return message;
  const std::string flag = message.substr(begin, message.find_first_of(" :,=", begin) - begin);
  const CLI::Option* option = option_of(app_, arguments_, flag);
  const bool on_the_command_line = std::ranges::any_of(arguments_, [&](const std::string& word) {
    return option != nullptr && option->check_name(word.substr(0, word.find('=')));
  });
  if (option == nullptr || on_the_command_line) return message;
  const char* value =
      option->get_envname().empty() ? nullptr : std::getenv(option->get_envname().c_str());
  if (value != nullptr && *value != '\0') {
    return option->get_envname() + " in the environment: " + message;
  }
  const std::string place = config_->place_of(flag.substr(2));
  return place.empty() ? message : place + ": " + message;
}

int Program::handle_parse_error(const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    if (error.get_name() == "CallForHelp") hide_rarely_needed(app_);
    app_.exit(error);  // prints help or version
    return finish(Status());
  }
  if (print_config_wanted_ && error.get_name() == "RequiredError") {
    return print_config();
  }
  const std::vector<std::string> extras = app_.remaining(true);
  if (extras.empty()) {
    return usage_error(with_source(error.what()) + laboratory_hint("", error.what()));
  }
  // Something was not understood: that is the error, whatever else is missing because of it.
  const std::string word = extras.front().substr(0, extras.front().find('='));
  if (const std::string hint = laboratory_hint(word, ""); !hint.empty()) {
    return usage_error("unknown argument '" + word + "'" + hint);
  }
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

bool Program::asks_for_reference(int argc, const char* const* argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  return first == kPrintCompletion || first == kPrintMan;
}

int Program::print_reference() const {
  const bool man = arguments_.size() == 1 && arguments_[0] == kPrintMan;
  const std::string shell = arguments_.size() == 2 ? arguments_[1] : "";
  if (!man && (arguments_[0] != kPrintCompletion || (shell != "bash" && shell != "zsh"))) {
    return usage_error("expected --print-completion bash, --print-completion zsh or --print-man");
  }
  const std::string text = man               ? man_page(app_, version())
                           : shell == "bash" ? bash_completion(app_)
                                             : zsh_completion(app_);
  std::fputs(text.c_str(), stdout);
  return finish(Status());
}

int Program::print_config() const {
  std::fputs(app_.config_to_str(true, false).c_str(), stdout);
  return finish(Status());
}

}  // namespace outrider
