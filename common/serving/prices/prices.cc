// SPDX-License-Identifier: Apache-2.0
#include "common/serving/prices/prices.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "common/base/files.h"
#include "common/serving/cli/nearest.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxPriceBytes = 1 << 16;

// Takes keys out of one table and remembers the first error.
class TableReader final {
 public:
  TableReader(const toml::table* table, std::string file, std::string name)
      : table_(table), file_(std::move(file)), name_(std::move(name)) {}

  bool there() const { return table_ != nullptr; }
  const Status& status() const { return status_; }

  std::optional<double> optional(const std::string& key) {
    known_.push_back(key);
    const toml::node* node = table_ == nullptr ? nullptr : table_->get(key);
    if (node == nullptr) return std::nullopt;
    const std::optional<double> value = node->value<double>();
    if (!value || !std::isfinite(*value) || *value < 0) {
      fail(*node, "'" + key + "' must be a number from 0 up");
      return std::nullopt;
    }
    return value;
  }

  double required(const std::string& key) {
    const std::optional<double> value = optional(key);
    if (!value && status_.ok()) {
      status_ = invalid_argument(file_ + ": [" + name_ + "] lacks '" + key +
                                 "'. Remedy: give its price, 0 if it is free");
    }
    return value.value_or(0);
  }

  // Call after all keys.
  Status finish() {
    if (table_ == nullptr || !status_.ok()) return status_;
    for (const auto& [key, node] : *table_) {
      const std::string name(key.str());
      if (std::ranges::find(known_, name) != known_.end()) continue;
      const std::string nearest = nearest_match(name, known_);
      fail(node, "unknown key '" + name + "' in [" + name_ + "]" +
                     (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
      return status_;
    }
    return {};
  }

 private:
  void fail(const toml::node& node, const std::string& why) {
    if (!status_.ok()) return;
    status_ =
        invalid_argument(file_ + ", line " + std::to_string(node.source().begin.line) + ": " + why);
  }

  const toml::table* const table_;
  const std::string file_;
  const std::string name_;
  std::vector<std::string> known_;
  Status status_;
};

Result<TokenPrices> token_prices(TableReader& reader) {
  TokenPrices prices;
  prices.input = reader.required("input");
  prices.output = reader.required("output");
  prices.cached_input = reader.optional("cached-input").value_or(prices.input);
  OUTRIDER_RETURN_IF_ERROR(reader.finish());
  return prices;
}

Status check_tables(const toml::table& root, const std::string& path) {
  static const std::set<std::string> known = {"date", "api", "draft", "gpu", "link", "device"};
  for (const auto& [key, node] : root) {
    if (known.contains(std::string(key.str()))) continue;
    return invalid_argument(path + ", line " + std::to_string(node.source().begin.line) +
                            ": unknown key '" + std::string(key.str()) +
                            "'. Remedy: date, [api], [draft], [gpu], [link] and [device]");
  }
  return {};
}

}  // namespace

Result<Prices> read_prices(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxPriceBytes));
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    return invalid_argument(path + ", line " + std::to_string(parsed.error().source().begin.line) +
                            ": " + std::string(parsed.error().description()));
  }
  const toml::table& root = parsed.table();
  OUTRIDER_RETURN_IF_ERROR(check_tables(root, path));
  const auto table = [&](const char* name) {
    const toml::node* node = root.get(name);
    return TableReader(node == nullptr ? nullptr : node->as_table(), path, name);
  };
  Prices prices;
  const toml::node* date = root.get("date");
  if (date == nullptr || !date->is_string()) {
    return invalid_argument(path + " lacks 'date'. Remedy: add the date of these prices");
  }
  prices.date = date->as_string()->get();
  TableReader api = table("api");
  OUTRIDER_ASSIGN_OR_RETURN(prices.api, token_prices(api));
  if (TableReader draft = table("draft"); draft.there()) {
    OUTRIDER_ASSIGN_OR_RETURN(prices.draft, token_prices(draft));
  }
  TableReader gpu = table("gpu"), link = table("link"), device = table("device");
  prices.gpu_dollars_per_hour = gpu.optional("dollars-per-hour");
  prices.link_dollars_per_mb = link.optional("dollars-per-mb").value_or(0);
  prices.device_watts = device.optional("watts").value_or(0);
  prices.dollars_per_kwh = device.optional("dollars-per-kwh").value_or(0);
  for (TableReader* reader : {&gpu, &link, &device}) OUTRIDER_RETURN_IF_ERROR(reader->finish());
  return prices;
}

}  // namespace outrider
