// Treats the command line of every program of Outrider, so that all behave alike.
//
//   Program program("outrider-edge", "Drafts on this device, lets the cloud decide.");
//   CLI::App* run = program.app().add_subcommand("run", "Answer one prompt");
//   run->add_option("--temp", options.temperature, "Temperature")->check(CLI::Range(0.0, 100.0));
//   if (auto code = program.parse(argc, argv)) return *code;
//   if (run->parsed()) return program.finish(run_prompt(options));
//
// A value comes from its flag, else from the environment (--log-level: OUTRIDER_LOG_LEVEL), else
// from the --config file (common/serving/cli/config_file.h), else it is the default. Every program
// has
// --config, --print-config, --version, --log-level, --log-format and --log-file. A misspelt flag,
// command or key ends the program with the nearest match, never is ignored. Numbers are read
// strictly: decimal, finite, no blanks, no digit separators. A number may stand right behind a
// short flag (-n40), other values stand apart from it. Groups of flags whose name ends with
// kRarelyNeeded stand in --help-all only.
//
// --print-completion bash|zsh and --print-man (reference.h), first on the command line, are for
// packages.
//
// A reader that goes away, of stdout, of stderr or of a socket, is a failed write and never the end
// of the process (SIGPIPE is ignored).
//
// A program that lacks a thread or memory in a place where no caller can be told says so in one
// sentence and ends with kExitRuntime: construct its Program first of all in main().
//
// Thread rule: main thread, before others start. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/serving/telemetry/log.h"

namespace outrider {

inline constexpr int kExitOk = 0;
inline constexpr int kExitRuntime = 1;
inline constexpr int kExitUsage = 2;

inline constexpr char kRarelyNeeded[] = ", rarely needed";

class ConfigReader;

// Adds --force to a command that writes files, of which the help of its flags tells.
CLI::Option* add_force_flag(CLI::App& command);

class Program final {
 public:
  Program(const std::string& name, const std::string& description);

  // The version of all programs of this build.
  static std::string version();

  // Flags and subcommands are added here, before parse(). A flag's default is the value that its
  // variable has when it is added.
  CLI::App& app() { return app_; }

  // The command line asks for a completion file or the man page: flags that have a Program of their
  // own may be added as well.
  static bool asks_for_reference(int argc, const char* const* argv);

  // Fills the variables and sets logging up. Returns the exit code if the program must end now
  // (help, version, --print-config, an error: all printed), nothing if it goes on.
  std::optional<int> parse(int argc, const char* const* argv);

  // Ends the program: prints a failure to stderr and returns the exit code, 2 for
  // kInvalidArgument (a flag's value that only the work itself could judge), else 1. Output that
  // stdout did not take is a failure too.
  int finish(const Status& status) const;
  // The same for work that has an exit code of its own.
  int finish(const Result<int>& code) const;

 private:
  std::string with_source(const std::string& message) const;
  int usage_error(const std::string& message) const;
  int handle_parse_error(const CLI::ParseError& error);
  int print_config() const;
  int print_reference() const;

  CLI::App app_;
  const std::shared_ptr<ConfigReader> config_;
  std::vector<std::string> arguments_;
  LogOptions log_;
  std::string log_level_ = "info";
  std::string log_format_ = "text";
  bool print_config_wanted_ = false;
};

}  // namespace outrider
