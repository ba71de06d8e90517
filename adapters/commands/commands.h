// The subcommands of outrider-train. Each declares itself to the program, and does its work in
// run() if the user chose it.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/output_file.h"
#include "common/base/status.h"
#include "common/serving/cli/program.h"

namespace outrider {

class CommandList final {
 public:
  explicit CommandList(CLI::App& app) : app_(app) {}

  // `add` declares the flags; `run` is called after parsing if this command was chosen.
  CLI::App* add(const std::string& name, const std::string& help, std::function<Status()> run) {
    CLI::App* command = app_.add_subcommand(name, help);
    commands_.push_back({command, std::move(run)});
    return command;
  }

  Status run_chosen() const {
    for (const Command& command : commands_) {
      if (command.app->parsed()) return command.run();
    }
    return invalid_argument("no command given. Remedy: --help lists them");
  }

 private:
  struct Command {
    CLI::App* app;
    std::function<Status()> run;
  };

  CLI::App& app_;
  std::vector<Command> commands_;
};

void add_tokenizer_command(CommandList& commands);
void add_data_commands(CommandList& commands);   // robot, gsm8k, mbpp, turns, wikitext
void add_shape_commands(CommandList& commands);  // init, inflate, cut-exits
void add_plot_command(CommandList& commands);
void add_label_commands(CommandList& commands);     // label, shortlist, compose
void add_generate_commands(CommandList& commands);  // generate, data-own
void add_evaluate_command(CommandList& commands);
// These need libtorch.
void add_pretrain_command(CommandList& commands);
void add_distill_command(CommandList& commands);
void add_exits_command(CommandList& commands);
void add_predictor_command(CommandList& commands);
void add_elastic_commands(CommandList& commands);  // elastic table

// The kind of file that the data commands and `generate` write.
inline constexpr OutputKind kTextsFile{
    .name = "a JSONL file of prompts or texts", .is_earlier = [](std::string_view content) {
      return content.starts_with(R"({"prompt":)") || content.starts_with(R"({"text":)");
    }};

// The JSONL file that a command writes as its --out.
class JsonlFile final {
 public:
  static Result<JsonlFile> create(const std::string& path) {
    Result<OutputFile> file = OutputFile::create(path, kTextsFile);
    if (!file.ok()) return file.status().with_context("--out");
    return JsonlFile(*std::move(file));
  }

  // Bytes that are not valid UTF-8 are replaced.
  void write(const nlohmann::ordered_json& line) {
    text_ += line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    if (text_.size() >= kBlock) flush();
  }

  Status close() {
    flush();
    return written_.ok() ? file_.commit() : written_;
  }

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 16;

  explicit JsonlFile(OutputFile file) : file_(std::move(file)) {}

  void flush() {
    if (written_.ok()) written_ = file_.write(text_);
    text_.clear();
  }

  OutputFile file_;
  std::string text_;  // not yet written
  Status written_;
};

// Adds --out, which is required, and --force.
inline void add_out(CLI::App* command, std::string& out, const std::string& help) {
  command->add_option("--out", out, help)->required();
  add_force_flag(*command);
}

}  // namespace outrider
