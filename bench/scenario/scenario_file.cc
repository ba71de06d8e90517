// SPDX-License-Identifier: Apache-2.0
#include "bench/scenario/scenario_file.h"

#include <fmt/core.h>

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/cli/config_reader.h"
#include "common/cli/nearest.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 20;

// Flags about this one invocation, which a file of it cannot say.
const std::set<std::string>& not_in_files() {
  static const std::set<std::string> names = {"scenario", "help", "help-all"};
  return names;
}

std::string at(const std::string& path, const toml::source_region& where) {
  return "scenario " + path + ", line " + std::to_string(where.begin.line);
}

// As it would stand on the command line; nothing for a table or a date.
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
