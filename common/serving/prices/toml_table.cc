// SPDX-License-Identifier: Apache-2.0
#include "common/serving/prices/toml_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "common/base/files.h"
#include "common/serving/cli/nearest.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxTomlBytes = 1 << 16;

std::string listed(std::span<const TomlUnit> units) {
  std::string all;
  for (const TomlUnit& unit : units) all += (all.empty() ? "" : ", ") + std::string(unit.name);
  return all;
}

}  // namespace

const toml::node* TomlTable::take(const std::string& key) {
  known_.push_back(key);
  return table_ == nullptr ? nullptr : table_->get(key);
}

const toml::node* TomlTable::required(const std::string& key, const std::string& remedy) {
  const toml::node* const node = take(key);
  if (node == nullptr && status_.ok()) {
    const std::string where = name_.empty() ? "" : ": [" + name_ + "]";
    status_ = invalid_argument(file_ + where + " lacks '" + key + "'. Remedy: " + remedy);
  }
  return node;
}

std::optional<double> TomlTable::optional_number(const std::string& key) {
  const toml::node* const node = take(key);
  if (node == nullptr) return std::nullopt;
  const std::optional<double> value = node->value<double>();
  if (value && std::isfinite(*value) && *value >= 0) return value;
  fail(*node, "'" + key + "' must be a number from 0 up");
  return std::nullopt;
}

double TomlTable::number(const std::string& key, const std::string& remedy) {
  if (required(key, remedy) == nullptr) return 0;
  return optional_number(key).value_or(0);
}

double TomlTable::quantity(const std::string& key, std::span<const TomlUnit> units,
                           const std::string& remedy) {
  const toml::node* const node = required(key, remedy);
  if (node == nullptr) return 0;
  const std::string text = node->value<std::string>().value_or("");
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || !std::isfinite(value) || value < 0) {
    fail(*node, "'" + key + "' must be text with a number from 0 up and a unit, \"4.5 " +
                    std::string(units.front().name) + "\"");
    return 0;
  }
  std::string_view rest(stop, static_cast<std::size_t>(end - stop));
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  const auto unit = std::ranges::find(units, rest, &TomlUnit::name);
  if (unit != units.end()) return value * unit->factor;
  fail(*node,
       "'" + key + "' has the unit '" + std::string(rest) + "'. Remedy: one of " + listed(units));
  return 0;
}

std::string TomlTable::text(const std::string& key, const std::string& remedy) {
  const toml::node* const node = required(key, remedy);
  if (node == nullptr) return "";
  const std::optional<std::string> value = node->value<std::string>();
  if (!value || value->empty()) fail(*node, "'" + key + "' must be text. Remedy: " + remedy);
  return value.value_or("");
}

std::vector<std::string> TomlTable::texts(const std::string& key) {
  std::vector<std::string> values;
  const toml::node* const node = take(key);
  if (node == nullptr) return values;
  const toml::array* const list = node->as_array();
  if (list == nullptr) fail(*node, "'" + key + "' must be a list of texts");
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const std::optional<std::string> value = (*list)[i].value<std::string>();
    if (!value) fail((*list)[i], "'" + key + "' must be a list of texts");
    values.push_back(value.value_or(""));
  }
  return values;
}

Status TomlTable::finish() {
  if (table_ == nullptr || !status_.ok()) return status_;
  for (const auto& [key, node] : *table_) {
    const std::string key_name(key.str());
    if (std::ranges::find(known_, key_name) != known_.end()) continue;
    const std::string nearest = nearest_match(key_name, known_);
    fail(node, "unknown key '" + key_name + "'" + (name_.empty() ? "" : " in [" + name_ + "]") +
                   (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
    return status_;
  }
  return {};
}

void TomlTable::fail(const toml::node& node, const std::string& why) {
  if (!status_.ok()) return;
  status_ =
      invalid_argument(file_ + ", line " + std::to_string(node.source().begin.line) + ": " + why);
}

Result<toml::table> read_toml(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxTomlBytes));
  toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    return invalid_argument(path + ", line " + std::to_string(parsed.error().source().begin.line) +
                            ": " + std::string(parsed.error().description()));
  }
  return std::move(parsed).table();
}

}  // namespace outrider
