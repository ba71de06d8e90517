// Takes keys out of one table of a TOML file and remembers the first error, with file and line.
//
// Thread rule: one thread. Ownership: the parsed file outlives a reader of one of its tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace outrider {

// A unit of a quantity, and how many of the program's units it is: {"mW", 1e-3} of watts.
struct TomlUnit {
  std::string_view name;
  double factor = 1;
};

class TomlTable final {
 public:
  // table: null if the file has none of this name. name: empty for the file itself.
  TomlTable(const toml::table* table, std::string file, std::string name)
      : table_(table), file_(std::move(file)), name_(std::move(name)) {}

  bool there() const { return table_ != nullptr; }
  const Status& status() const { return status_; }

  // A finite number from 0 up.
  std::optional<double> optional_number(const std::string& key);
  // remedy: a whole phrase, for a key that is missing.
  double number(const std::string& key, const std::string& remedy);
  // Text such as "4.5 W": a finite number from 0 up and one of these units.
  double quantity(const std::string& key, std::span<const TomlUnit> units,
                  const std::string& remedy);
  std::string text(const std::string& key, const std::string& remedy);
  std::vector<std::string> texts(const std::string& key);  // a list; empty if it is missing

  // The first error, or that of a key that nobody took. Call after all keys.
  Status finish();

 private:
  const toml::node* take(const std::string& key);
  const toml::node* required(const std::string& key, const std::string& remedy);
  void fail(const toml::node& node, const std::string& why);

  const toml::table* const table_;
  const std::string file_;
  const std::string name_;
  std::vector<std::string> known_;
  Status status_;
};

// The parsed file; toml::table is empty for an empty file. INVALID_ARGUMENT with file and line;
// NOT_FOUND.
Result<toml::table> read_toml(const std::string& path);

}  // namespace outrider
