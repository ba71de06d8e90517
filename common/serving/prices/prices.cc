// SPDX-License-Identifier: Apache-2.0
#include "common/serving/prices/prices.h"

#include <set>

#include "common/serving/prices/toml_table.h"

namespace outrider {
namespace {

constexpr const char* kPriceRemedy = "give its price, 0 if it is free";

Result<TokenPrices> token_prices(TomlTable& reader) {
  TokenPrices prices;
  prices.input = reader.number("input", kPriceRemedy);
  prices.output = reader.number("output", kPriceRemedy);
  prices.cached_input = reader.optional_number("cached-input").value_or(prices.input);
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
  OUTRIDER_ASSIGN_OR_RETURN(const toml::table root, read_toml(path));
  OUTRIDER_RETURN_IF_ERROR(check_tables(root, path));
  const auto table = [&](const char* name) {
    const toml::node* node = root.get(name);
    return TomlTable(node == nullptr ? nullptr : node->as_table(), path, name);
  };
  Prices prices;
  const toml::node* date = root.get("date");
  if (date == nullptr || !date->is_string()) {
    return invalid_argument(path + " lacks 'date'. Remedy: add the date of these prices");
  }
  prices.date = date->as_string()->get();
  TomlTable api = table("api");
  OUTRIDER_ASSIGN_OR_RETURN(prices.api, token_prices(api));
  if (TomlTable draft = table("draft"); draft.there()) {
    OUTRIDER_ASSIGN_OR_RETURN(prices.draft, token_prices(draft));
  }
  TomlTable gpu = table("gpu"), link = table("link"), device = table("device");
  prices.gpu_dollars_per_hour = gpu.optional_number("dollars-per-hour");
  prices.link_dollars_per_mb = link.optional_number("dollars-per-mb").value_or(0);
  prices.device_watts = device.optional_number("watts").value_or(0);
  prices.dollars_per_kwh = device.optional_number("dollars-per-kwh").value_or(0);
  for (TomlTable* reader : {&gpu, &link, &device}) OUTRIDER_RETURN_IF_ERROR(reader->finish());
  return prices;
}

}  // namespace outrider
