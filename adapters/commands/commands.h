// The subcommands of outrider-train. Each declares itself to the program, and does its work in
// run() if the user chose it.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/status.h"

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

// The JSONL file that a command writes as its --out.
class JsonlFile final {
 public:
  explicit JsonlFile(const std::string& path) : path_(path), out_(path, std::ios::binary) {}

  // Bytes that are not valid UTF-8 are replaced.
  void write(const nlohmann::ordered_json& line) {
    out_ << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  }

  Status close() {
    out_.close();
    return out_ ? Status() : resource_exhausted("--out " + path_ + ": cannot be written");
  }

 private:
  std::string path_;
  std::ofstream out_;
};

}  // namespace outrider
