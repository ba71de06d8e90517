// SPDX-License-Identifier: Apache-2.0
#include "bench/scenario/scenario_file.h"

#include <fmt/core.h>
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "common/base/files.h"
#include "common/serving/cli/config_reader.h"
#include "common/serving/cli/nearest.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxSyntheticBytes = 1 << 16;
const std::vector<std::string> kDataSetKeys = {"name", "tau", "gamma", "miss_rate", "mean_exit"};

std::string line_of(const std::string& path, const toml::node& node) {
  return path + ", line " + std::to_string(node.source().begin.line);
}

Status check_keys(const std::string& path, const toml::table& table) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (std::ranges::find(kDataSetKeys, name) != kDataSetKeys.end()) continue;
    const std::string nearest = nearest_match(name, kDataSetKeys);
    return invalid_argument(line_of(path, node) + ": unknown key '" + name + "'" +
                            (nearest.empty() ? "" : ". Did you mean '" + nearest + "'?"));
  }
  return {};
}

// A number within its bounds, or nothing if the key is missing.
Result<std::optional<double>> number_in(const std::string& path, const toml::table& table,
                                        const char* key, double least, double most) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return std::optional<double>();
  const std::optional<double> value = node->value<double>();
  if (!value || !(*value >= least && *value <= most)) {
    return invalid_argument(fmt::format("{}: '{}' must be a number from {:g} to {:g}",
                                        line_of(path, *node), key, least, most));
  }
  return value;
}

Result<SyntheticAcceptance> read_data_set(const std::string& path, const toml::table& table) {
  OUTRIDER_RETURN_IF_ERROR(check_keys(path, table));
  SyntheticAcceptance one;
  one.name = table["name"].value_or(std::string());
  if (one.name.empty()) return invalid_argument(line_of(path, table) + ": 'name' is missing");
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<double> gamma,
                            number_in(path, table, "gamma", 1, 64));
  one.gamma = static_cast<int>(gamma.value_or(one.gamma));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<double> tau,
                            number_in(path, table, "tau", 1, one.gamma + 1));
  if (!tau) return invalid_argument(line_of(path, table) + ": 'tau' is missing");
  one.tau = *tau;
  OUTRIDER_ASSIGN_OR_RETURN(one.miss_rate, number_in(path, table, "miss_rate", 0, 1));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<double> exit,
                            number_in(path, table, "mean_exit", 0, 1000));
  if (one.miss_rate.has_value() != exit.has_value()) {
    return invalid_argument(line_of(path, table) +
                            ": 'miss_rate' and 'mean_exit' go together. Remedy: give both, or "
                            "neither and --exits synthetic");
  }
  one.mean_exit = exit.value_or(0);
  return one;
}

}  // namespace

Result<std::vector<SyntheticAcceptance>> read_synthetic_acceptance(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxSyntheticBytes));
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    return invalid_argument(path + ", line " + std::to_string(parsed.error().source().begin.line) +
                            ": " + std::string(parsed.error().description()));
  }
  const toml::array* sets = parsed.table()["data_set"].as_array();
  if (sets == nullptr || sets->empty() || parsed.table().size() != 1) {
    return invalid_argument(path + ": expected [[data_set]] tables and nothing else");
  }
  std::vector<SyntheticAcceptance> read;
  std::set<std::string> names;
  for (const toml::node& node : *sets) {
    const toml::table* table = node.as_table();
    if (table == nullptr) return invalid_argument(line_of(path, node) + ": expected a table");
    OUTRIDER_ASSIGN_OR_RETURN(SyntheticAcceptance one, read_data_set(path, *table));
    if (!names.insert(one.name).second) {
      return invalid_argument(line_of(path, node) + ": '" + one.name + "' stands twice");
    }
    read.push_back(std::move(one));
  }
  return read;
}

namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 20;

// Flags that concern one invocation only, so a file cannot set them.
const std::set<std::string>& not_in_files() {
  static const std::set<std::string> names = {"scenario", "help", "help-all"};
  return names;
}

std::string at(const std::string& path, const toml::source_region& where) {
  return "scenario " + path + ", line " + std::to_string(where.begin.line);
}

// The value as written on the command line; nothing for a table or a date.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* flag = node.as_boolean()) return std::string(flag->get() ? "true" : "false");
  if (!node.is_number()) return std::nullopt;
  if (const auto* whole = node.as_integer()) return std::to_string(whole->get());
  return fmt::format("{}", node.as_floating_point()->get());  // as short as it may be: 0.7
}

Result<std::string> value_text(const toml::node& node, const std::string& where) {
  if (const auto scalar = scalar_text(node)) return *scalar;
  const toml::array* list = node.as_array();
  if (list == nullptr) {
    return invalid_argument(where + ": expected a number, a string, true or false, or a list");
  }
  std::string text;
  for (const toml::node& element : *list) {
    const auto scalar = scalar_text(element);
    if (!scalar) return invalid_argument(where + ": a list holds numbers or strings");
    text += (text.empty() ? "" : ",") + *scalar;
  }
  if (text.empty()) return invalid_argument(where + ": the list is empty");
  return text;
}

CLI::Option* option_of(CLI::App& command, const std::string& key) {
  if (not_in_files().contains(key)) return nullptr;
  return command.get_option_no_throw("--" + key);
}

Status unknown_key(const std::string& where, const std::string& key, const CLI::App& command) {
  const std::string nearest = nearest_match(key, flag_names(command));
  return invalid_argument(where + ": unknown key '" + key + "'" +
                          (nearest.empty()
                               ? ". Remedy: keys are the command's flags without dashes; see --help"
                               : ". Did you mean '" + nearest + "'?"));
}

Status apply_key(const std::string& key, const toml::node& node, const std::string& where,
                 CLI::App& command) {
  CLI::Option* option = option_of(command, key);
  if (option == nullptr) return unknown_key(where, key, command);
  if (option->count() > 0) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, value_text(node, where + ", " + key));
  try {
    option->add_result(text);
    option->run_callback();
  } catch (const CLI::ParseError& error) {
    return invalid_argument(where + ": " + error.what());
  }
  return {};
}

}  // namespace

Status apply_scenario(const std::string& path, CLI::App& command) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxBytes));
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    return invalid_argument(at(path, parsed.error().source()) + ": " +
                            std::string(parsed.error().description()));
  }
  for (const auto& [key, node] : parsed.table()) {
    OUTRIDER_RETURN_IF_ERROR(
        apply_key(std::string(key.str()), node, at(path, node.source()), command));
  }
  return {};
}

}  // namespace outrider
