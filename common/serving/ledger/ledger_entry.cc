// SPDX-License-Identifier: Apache-2.0
#include "common/serving/ledger/ledger_entry.h"

namespace outrider {
namespace {

constexpr double kJoulesPerKwh = 3.6e6;

double count(std::uint64_t number) {
  return static_cast<double>(number);
}

double api_dollars(const TokenPrices& prices, const LedgerEntry& entry) {
  const double fresh = count(entry.prompt_tokens - entry.cached_tokens);
  return (fresh * prices.input + count(entry.cached_tokens) * prices.cached_input +
          count(entry.completion_tokens) * prices.output) /
         1e6;
}

std::optional<double> own_joules(const Prices& prices, const LedgerEntry& entry) {
  if (!entry.own) return std::nullopt;
  if (entry.joules) return entry.joules;
  if (prices.device_watts == 0) return std::nullopt;
  return prices.device_watts * to_seconds(entry.own->target + entry.own->draft);
}

}  // namespace

std::optional<Bill> bill_of(const Prices* priced, const LedgerEntry& entry) {
  if (priced == nullptr) return std::nullopt;
  const Prices& prices = *priced;
  Bill bill{.api = api_dollars(prices.api, entry),
            .device = {},
            .link = {},
            .power = {},
            .prices_of = prices.date};
  if (prices.gpu_dollars_per_hour) {
    const Duration rented = entry.device - (entry.own ? entry.own->target : Duration{0});
    bill.device = *prices.gpu_dollars_per_hour * to_seconds(rented) / 3600;
  }
  if (entry.bytes && prices.link_dollars_per_mb > 0) {
    bill.link = prices.link_dollars_per_mb * count(entry.bytes->up + entry.bytes->down) / 1e6;
  }
  const std::optional<double> joules = own_joules(prices, entry);
  if (joules && prices.dollars_per_kwh > 0) {
    bill.power = prices.dollars_per_kwh * *joules / kJoulesPerKwh;
  }
  return bill;
}

std::vector<LogField> ledger_fields(const LedgerEntry& entry, const std::optional<Bill>& bill) {
  std::vector<LogField> fields = {{"prompt_tokens", entry.prompt_tokens},
                                  {"cached_tokens", entry.cached_tokens},
                                  {"completion_tokens", entry.completion_tokens},
                                  {"passes", entry.passes},
                                  {"rows", entry.rows},
                                  {"rows_died", entry.rows_died},
                                  {"device_s", to_seconds(entry.device)}};
  const auto add = [&fields](std::string_view key, std::optional<double> value) {
    if (value) fields.emplace_back(key, *value);
  };
  if (entry.own) add("draft_s", to_seconds(entry.own->draft));
  if (entry.bytes) {
    fields.emplace_back("bytes_up", entry.bytes->up);
    fields.emplace_back("bytes_down", entry.bytes->down);
  }
  add("joules", entry.joules);
  if (!bill) return fields;
  add("api_dollars", bill->api);
  add("device_dollars", bill->device);
  add("link_dollars", bill->link);
  add("power_dollars", bill->power);
  fields.emplace_back("prices_of", bill->prices_of);
  return fields;
}

}  // namespace outrider
