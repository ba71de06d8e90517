// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/config_reader.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "common/base/output_file.h"
#include "common/serving/cli/config_file.h"
#include "common/serving/cli/nearest.h"

namespace outrider {
namespace {

bool set_by_environment(const CLI::Option& option) {
  const char* value = std::getenv(option.get_envname().c_str());
  return value != nullptr && *value != '\0';
}

std::vector<const CLI::App*> commands_of(const CLI::App& root) {
  return root.get_subcommands([](const CLI::App*) { return true; });
}

[[noreturn]] void fail(const std::string& place, const std::string& problem,
                       const std::string& word, const std::vector<std::string>& known) {
  const std::string match = nearest_match(word, known);
  throw CLI::ConfigError(place + ": " + problem + " '" + word + "'" +
                         (match.empty() ? "" : ". Did you mean '" + match + "'?"));
}

// The apps that an entry is for: the program, its section's command, or every command that knows
// the key.
std::vector<const CLI::App*> takers(const CLI::App& root, const ConfigEntry& entry,
                                    const std::string& place) {
  std::vector<std::string> known = flag_names(root);
  std::vector<const CLI::App*> result;
  if (entry.section.empty() && find_option(root, entry.key) != nullptr) return {&root};
  std::vector<std::string> sections;
  for (const CLI::App* command : commands_of(root)) {
    sections.push_back(command->get_name());
    if (!entry.section.empty() && entry.section != command->get_name()) continue;
    const std::vector<std::string> names = flag_names(*command);
    known.insert(known.end(), names.begin(), names.end());
    if (find_option(*command, entry.key) != nullptr) result.push_back(command);
  }
  if (!result.empty()) return result;
  const bool section_known = entry.section.empty() || std::find(sections.begin(), sections.end(),
                                                                entry.section) != sections.end();
  if (!section_known) fail(place, "unknown section", entry.section, sections);
  fail(place, "unknown key", entry.key, known);
}

std::string config_string(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    const std::size_t escaped = std::string_view("\n\t\\\"").find(c);
    if (escaped == std::string_view::npos) {
      text += c;
    } else {
      text += '\\';
      text += "nt\\\""[escaped];
    }
  }
  return text + '"';
}

// The option's values, or else its default, which CLI11 writes as [1,2,3] if it is a list.
std::vector<std::string> values_of(const CLI::Option& option) {
  if (option.count() > 0) return option.results();
  const std::string text = option.get_default_str();
  if (text.empty() || text == "[]") return {};
  if (option.get_items_expected_max() == 1 || !text.starts_with('[')) return {text};
  return CLI::detail::split(text.substr(1, text.size() - 2), ',');
}

std::string config_lines(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_configurable() || option->get_lnames().empty()) continue;
    const std::vector<std::string> values = values_of(*option);
    if (values.empty()) continue;
    std::string list;
    for (const std::string& value : values) {
      list += (list.empty() ? "" : ", ") + config_string(value);
    }
    if (values.size() > 1) list.insert(0, 1, '[').append("]");
    text += option->get_lnames().front() + " = " + list + "\n";
  }
  return text;
}

}  // namespace

const CLI::Option* find_option(const CLI::App& command, const std::string& name) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_configurable() && option->check_lname(name)) return option;
  }
  return nullptr;
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string>& own = option->get_lnames();
    names.insert(names.end(), own.begin(), own.end());
  }
  return names;
}

std::vector<CLI::ConfigItem> ConfigReader::from_config(std::istream& input) const {
  const std::string text(std::istreambuf_iterator<char>(input), {});
  const std::string what = root_.get_config_ptr()->as<std::string>();
  remember_input(what);
  Result<std::vector<ConfigEntry>> entries = parse_config_entries(text, what);
  if (!entries.ok()) throw CLI::ConfigError(entries.status().message());
  std::vector<CLI::ConfigItem> items;
  for (const ConfigEntry& entry : *entries) {
    const std::string place = what + ":" + std::to_string(entry.line);
    for (const CLI::App* app : takers(root_, entry, place)) {
      // A command that was not named stays untouched: two may fill the same variable.
      if (app != &root_ && !app->parsed()) continue;
      if (set_by_environment(*find_option(*app, entry.key))) continue;
      CLI::ConfigItem item;
      if (app != &root_) item.parents = {app->get_name()};
      item.name = entry.key;
      item.inputs = entry.values;
      places_[entry.key] = place;
      items.push_back(std::move(item));
    }
  }
  return items;
}

std::string ConfigReader::place_of(const std::string& key) const {
  const auto at = places_.find(key);
  return at == places_.end() ? "" : at->second;
}

std::string ConfigReader::to_config(const CLI::App* /*app*/, bool /*defaults*/,
                                    bool /*descriptions*/, std::string /*prefix*/) const {
  std::string text = config_lines(root_);
  for (const CLI::App* command : root_.get_subcommands()) {
    text += "[" + command->get_name() + "]\n" + config_lines(*command);
  }
  return text;
}

}  // namespace outrider
