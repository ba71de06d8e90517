// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>

#include "common/serving/cli/reference.h"

namespace outrider {
namespace {

using internal::flags_of;
using internal::names_of;
using internal::subcommands_of;

// One character of UTF-8, as roff names it where ASCII does not have it.
std::string roff_character(std::string_view character) {
  constexpr std::array<std::pair<char, const char*>, 6> kNames = {{{'\\', "\\e"},
                                                                   {'-', "\\-"},
                                                                   {'\'', "\\(aq"},
                                                                   {'`', "\\(ga"},
                                                                   {'^', "\\(ha"},
                                                                   {'~', "\\(ti"}}};
  if (character.size() == 1) {
    for (const auto& [plain, name] : kNames) {
      if (character[0] == plain) return name;
    }
    return std::string(character);
  }
  std::uint32_t code = static_cast<unsigned char>(character[0]) & (0x7fu >> character.size());
  for (const char byte : character.substr(1)) code = code << 6 | (byte & 0x3fu);
  std::array<char, 16> name{};
  std::snprintf(name.data(), name.size(), "\\[u%04X]", code);
  return name.data();
}

std::string roff(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto is_middle = [](char byte) { return (byte & 0xc0) == 0x80; };
    std::size_t bytes = 1;
    while (bytes < text.size() && is_middle(text[bytes])) ++bytes;
    if (text[0] == '.' && (out.empty() || out.back() == '\n')) out += "\\&";  // no request
    out += roff_character(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return out;
}

std::string flag_entry(const CLI::Option& flag) {
  std::string entry = ".TP\n", names;
  for (const std::string& name : names_of(flag)) {
    names += (names.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  }
  entry += names;
  if (flag.get_items_expected_max() > 0) entry += " \\fI" + roff(flag.get_type_name()) + "\\fR";
  entry += "\n" + roff(flag.get_description()) + ".\n";
  if (flag.get_required()) entry += "It must be given.\n";
  const std::string standing = flag.get_default_str();
  const bool says_nothing = standing.empty() || standing == "[]" || standing == "false";
  if (!says_nothing) entry += "Default: " + roff(standing) + ".\n";
  return entry;
}

// The flags of one group that the same commands have.
struct FlagGroup {
  std::vector<std::string> commands;
  std::string name;
  std::string entries;
};

struct Entry {
  std::vector<std::string> commands;
  std::string group;
  std::string text;
};

void collect(const CLI::App& command, const std::string& path, std::vector<Entry>& entries) {
  for (const CLI::Option* flag : flags_of(command)) {
    const bool is_help = flag->check_name("--help") || flag->check_name("--help-all");
    if (!path.empty() && is_help) continue;  // the program's
    std::string text = flag_entry(*flag);
    const auto same = std::ranges::find_if(entries, [&](const Entry& entry) {
      return entry.text == text && entry.group == flag->get_group();
    });
    if (same != entries.end()) {
      same->commands.push_back(path);
    } else {
      entries.push_back({{path}, flag->get_group(), std::move(text)});
    }
  }
  for (const CLI::App* next : subcommands_of(command)) {
    collect(*next, path + (path.empty() ? "" : " ") + next->get_name(), entries);
  }
}

std::string title_of(const std::vector<std::string>& commands) {
  if (commands.front().empty()) return "OPTIONS";
  std::string title = "OPTIONS OF ";
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (i > 0) title += i + 1 == commands.size() ? " AND " : ", ";
    title += commands[i];
  }
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
  return title;
}

std::string option_sections(const CLI::App& program) {
  std::vector<Entry> entries;
  collect(program, "", entries);
  std::string text;
  while (!entries.empty()) {
    const std::vector<std::string> commands = entries.front().commands;
    text += ".SH " + roff(title_of(commands)) + "\n";
    std::string group = "Options";  // CLI11's own name of what has none
    std::vector<Entry> others;
    for (Entry& entry : entries) {
      if (entry.commands != commands) {
        others.push_back(std::move(entry));
        continue;
      }
      if (entry.group != group) text += ".SS " + roff(entry.group) + "\n";
      group = entry.group;
      text += entry.text;
    }
    entries = std::move(others);
  }
  return text;
}

std::string command_entries(const CLI::App& command, const std::string& path) {
  std::string text;
  for (const CLI::App* next : subcommands_of(command)) {
    const std::string name = path + (path.empty() ? "" : " ") + next->get_name();
    std::string arguments;
    for (const CLI::Option* option : next->get_options()) {
      if (names_of(*option).empty()) arguments += " \\fI" + roff(option->get_name()) + "\\fR";
    }
    text +=
        ".TP\n\\fB" + roff(name) + "\\fR" + arguments + "\n" + roff(next->get_description()) + "\n";
    text += command_entries(*next, name);
  }
  return text;
}

std::string examples(const CLI::App& command) {
  std::string text;
  if (!command.get_footer().empty()) {
    text += ".SS " + roff(command.get_name()) + "\n.nf\n" + roff(command.get_footer()) + "\n.fi\n";
  }
  for (const CLI::App* next : subcommands_of(command)) text += examples(*next);
  return text;
}

}  // namespace

std::string man_page(const CLI::App& program, const std::string& version) {
  const std::string about = program.get_description();
  const std::string name = roff(program.get_name());
  const std::string commands = command_entries(program, "");
  std::string title = program.get_name();
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string page = ".\\\" From the flags of " + program.get_name() + "\n.TH " + roff(title) +
                     " 1 \"\" \"Outrider " + roff(version) + "\" \"Outrider\"\n.SH NAME\n" + name +
                     " \\- " + roff(about.substr(0, about.find_first_of(":.\n"))) +
                     "\n.SH SYNOPSIS\n\\fB" + name + "\\fR [\\fIOPTION\\fR..]" +
                     (commands.empty() ? "" : " [\\fICOMMAND\\fR [\\fIOPTION\\fR..]]") +
                     "\n.SH DESCRIPTION\n" + roff(about) + "\n";
  if (!commands.empty()) page += ".SH COMMANDS\n" + commands;
  page += option_sections(program);
  page +=
      ".SH ENVIRONMENT AND FILES\nA value comes from its flag, else from the environment "
      "(\\fB\\-\\-log\\-level\\fR: \\fBOUTRIDER_LOG_LEVEL\\fR), else from the file of "
      "\\fB\\-\\-config\\fR, else it is the default.\n.SH EXIT STATUS\n0: done. 1: it failed. "
      "2: the command line, the environment or a file is wrong.\n";
  const std::string shown = examples(program);
  return shown.empty() ? page : page + ".SH EXAMPLES\n" + shown;
}

}  // namespace outrider
