// The files that packages hold beside a program, made from its flags: completion files of shells,
// and its man page. `program --print-completion bash` (or zsh) and `program --print-man` print
// them.
//
// A flag's value completes to the words that it may be; where it is free text, to files.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace outrider {

std::string bash_completion(const CLI::App& program);
std::string zsh_completion(const CLI::App& program);
// In roff's man macros. Flags that several commands share stand there once.
std::string man_page(const CLI::App& program, const std::string& version);

namespace internal {
// The kinds of completion that a value offers.
enum class ValueKind { kNone, kWords, kNumber, kFile };
ValueKind value_kind(const CLI::Option& option);
// The words that a value may be; empty: any.
std::vector<std::string> value_words(const CLI::Option& option);
// The names as they stand on the command line; empty for a positional argument.
std::vector<std::string> names_of(const CLI::Option& option);
// In the order in which they were added. Hidden ones are left out.
std::vector<const CLI::Option*> flags_of(const CLI::App& command);
std::vector<const CLI::App*> subcommands_of(const CLI::App& command);
std::string replace_all(std::string text, const std::string& from, const std::string& to);
}  // namespace internal

}  // namespace outrider
