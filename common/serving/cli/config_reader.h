// Feeds a --config file to CLI11, with strictness that its own reader lacks.
//
// Thread rule: as CLI::App. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <istream>
#include <map>
#include <string>
#include <vector>

namespace outrider {

// The option of `command` or, failing that, of `root`, that a --config key or flag without dashes
// names; null if there is none.
const CLI::Option* find_option(const CLI::App& command, const std::string& name);

// The long flags of a command, without dashes.
std::vector<std::string> flag_names(const CLI::App& command);

// Gives CLI11 the file's entries that no environment variable overrides. A key before any section
// goes to the program itself or to the commands that know it. Throws CLI::ConfigError (CLI11's way)
// with file, line and nearest match for keys and sections that nothing knows.
class ConfigReader final : public CLI::Config {
 public:
  // root must outlive this.
  explicit ConfigReader(const CLI::App& root) : root_(root) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;
  // The flags of the program and of the command on the command line, as a --config file.
  std::string to_config(const CLI::App* app, bool defaults, bool descriptions,
                        std::string prefix) const override;

  // Where the file says something of a key, as FILE:LINE; empty: nowhere.
  std::string place_of(const std::string& key) const;

 private:
  const CLI::App& root_;
  mutable std::map<std::string, std::string> places_;  // by key
};

}  // namespace outrider
