// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/reference.h"

#include <map>
#include <string_view>
#include <utility>

namespace outrider {
namespace {

using internal::flags_of;
using internal::names_of;
using internal::replace_all;
using internal::subcommands_of;
using internal::value_kind;
using internal::value_words;
using internal::ValueKind;

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string quoted(const std::string& text) {
  return "'" + replace_all(text, "'", "'\\''") + "'";
}

// The flags that may follow a command: its own flags, and those of the program, which it passes on
// (as commands with commands of their own do not).
std::vector<const CLI::Option*> flags_at(const CLI::App& program, const CLI::App& command) {
  std::vector<const CLI::Option*> flags = flags_of(command);
  const bool passes_on = command.get_parent() == &program && subcommands_of(command).empty();
  if (!passes_on) return flags;
  for (const CLI::Option* flag : flags_of(program)) {
    if (!flag->check_name("--help") && !flag->check_name("--help-all")) flags.push_back(flag);
  }
  return flags;
}

// --- bash ---------------------------------------------------------------------------------------

struct BashCases {
  std::vector<std::string> commands;          // patterns of "COMMAND WORD" that name a command
  std::map<std::string, std::string> values;  // words to the patterns of "COMMAND:FLAG"
  std::vector<std::string> numbers, files;    // patterns of "COMMAND:FLAG"
  std::string words;                          // cases: what may stand where no value does
};

void add_bash_cases(const CLI::App& program, const CLI::App& command, const std::string& path,
                    BashCases& cases) {
  std::vector<std::string> words;
  for (const CLI::App* next : subcommands_of(command)) {
    words.push_back(next->get_name());
    cases.commands.push_back(quoted(path + " " + next->get_name()));
    add_bash_cases(program, *next, path + (path.empty() ? "" : " ") + next->get_name(), cases);
  }
  for (const CLI::Option* flag : flags_at(program, command)) {
    for (const std::string& name : names_of(*flag)) {
      words.push_back(name);
      const std::string pattern = quoted(path + ":" + name);
      switch (value_kind(*flag)) {
        case ValueKind::kWords: {
          std::string& patterns = cases.values[joined(value_words(*flag), " ")];
          patterns += (patterns.empty() ? "" : " | ") + pattern;
          break;
        }
        case ValueKind::kNumber:
          cases.numbers.push_back(pattern);
          break;
        case ValueKind::kFile:
          cases.files.push_back(pattern);
          break;
        case ValueKind::kNone:
          break;
      }
    }
  }
  cases.words += "        " + quoted(path) + ") words=" + quoted(joined(words, " ")) + " ;;\n";
}

constexpr std::string_view kBashHead = R"(() {
  local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]} command='' words='' i
  [[ $flag == = ]] && flag=${COMP_WORDS[COMP_CWORD - 2]} # --flag=word are three words to bash
  [[ $word == = ]] && word=''
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${COMP_WORDS[i]}" in
      )";

// --- zsh ----------------------------------------------------------------------------------------

std::string zsh_flag(const CLI::Option& flag) {
  const std::vector<std::string> names = names_of(flag);
  std::string about = flag.get_description();
  for (const char* special : {"\\", "[", "]"}) {
    about = replace_all(std::move(about), special, std::string("\\") + special);
  }
  std::string rest = "[" + replace_all(std::move(about), "\n", " ") + "]";
  const ValueKind kind = value_kind(flag);
  if (kind == ValueKind::kWords) rest += ":value:(" + joined(value_words(flag), " ") + ")";
  if (kind == ValueKind::kNumber) rest += ":number: ";
  if (kind == ValueKind::kFile) rest += ":value:_files";
  std::string specs;
  for (const std::string& name : names) {
    const bool equals = kind != ValueKind::kNone && name.starts_with("--");
    const bool repeats = flag.get_items_expected_max() > 1;
    const std::string other = repeats            ? "*"
                              : names.size() > 1 ? "(" + joined(names, " ") + ")"
                                                 : "";
    specs += " \\\n  " + quoted(other + name + (equals ? "=" : "") + rest);
  }
  return specs;
}

std::string zsh_arguments(const CLI::App& program, const CLI::App& command) {
  const std::vector<const CLI::App*> commands = subcommands_of(command);
  std::string text = "_arguments -C";
  for (const CLI::Option* flag : flags_at(program, command)) text += zsh_flag(*flag);
  if (commands.empty()) return text + "\n";
  std::string list, cases;
  for (const CLI::App* next : commands) {
    list += " " + quoted(next->get_name() + ":" + replace_all(next->get_description(), "\n", " "));
    cases += next->get_name() + ")\n" + zsh_arguments(program, *next) + ";;\n";
  }
  return "commands=(" + list + ")\n" + text +
         " \\\n  '1:command:{_describe command commands}' \\\n  '*::argument:->argument'\n" +
         "case $line[1] in\n" + cases + "esac\n";
}

}  // namespace

std::string bash_completion(const CLI::App& program) {
  BashCases cases;
  add_bash_cases(program, program, "", cases);
  std::string values;
  for (const auto& [words, patterns] : cases.values) {
    values += "    " + patterns + ") words=" + quoted(words) + " ;;\n";
  }
  if (!cases.numbers.empty()) values += "    " + joined(cases.numbers, " | ") + ") return ;;\n";
  if (!cases.files.empty()) {
    values += "    " + joined(cases.files, " | ") +
              ")\n      compopt -o filenames 2>/dev/null\n"
              "      mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n      return ;;\n";
  }
  if (cases.commands.empty()) cases.commands.push_back("' '");
  const std::string name = program.get_name();
  const std::string function = "_" + replace_all(name, "-", "_");
  return "# bash completion of " + name + ", from its flags\n" + function + std::string(kBashHead) +
         joined(cases.commands, " | ") +
         ") command=${command:+$command }${COMP_WORDS[i]} ;;\n    esac\n  done\n  COMPREPLY=()\n"
         "  case \"$command:$flag\" in\n" +
         values + "    *)\n      case $command in\n" + cases.words +
         "      esac ;;\n  esac\n  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- "
         "\"$word\")\n}\n" +
         "complete -F " + function + " " + name + "\n";
}

std::string zsh_completion(const CLI::App& program) {
  return "#compdef " + program.get_name() + "\n# From the flags of " + program.get_name() +
         ".\nlocal curcontext=\"$curcontext\" context state state_descr line\nlocal -a commands\n"
         "typeset -A opt_args\n" +
         zsh_arguments(program, program);
}

namespace internal {

std::vector<std::string> value_words(const CLI::Option& option) {
  const std::string type = option.get_type_name();  // as TEXT:{auto,f32}
  const std::size_t begin = type.find(":{");
  if (begin == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 2, type.find('}', begin) - begin - 2), ',');
}

ValueKind value_kind(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return ValueKind::kNone;
  if (!value_words(option).empty()) return ValueKind::kWords;
  const std::string type = option.get_type_name();
  const bool number =
      type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
  return number ? ValueKind::kNumber : ValueKind::kFile;
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<const CLI::Option*> flags_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) {
    return !option->get_group().empty() && !names_of(*option).empty();
  });
}

std::vector<const CLI::App*> subcommands_of(const CLI::App& command) {
  return command.get_subcommands(
      [](const CLI::App* next) { return !next->get_name().empty() && !next->get_group().empty(); });
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace internal

}  // namespace outrider
