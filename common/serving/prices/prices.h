// The cost of computing, sending and power, from a dated TOML file:
//
//   date = "2025-05-20"            # when these prices held
//   [api]                          # of the target, dollars per million tokens
//   input = 0.9
//   cached-input = 0.45            # of a prefix that was sent before; default: input
//   output = 0.9
//   [draft]                        # of a draft in the cloud; default: no price
//   input = 0.1
//   output = 0.1
//   [gpu]
//   dollars-per-hour = 2.5         # a server of one's own; default: no price
//   [link]
//   dollars-per-mb = 0.01          # cellular; default: free
//   [device]
//   watts = 10                     # while it drafts; default: free
//   dollars-per-kwh = 0.3
//
// Thread rule: values; reading is a free function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "common/base/status.h"

namespace outrider {

// Dollars per million tokens.
struct TokenPrices {
  double input = 0;
  double output = 0;
  double cached_input = 0;
};

struct Prices {
  std::string date;
  TokenPrices api;
  std::optional<TokenPrices> draft = {};
  std::optional<double> gpu_dollars_per_hour = {};
  double link_dollars_per_mb = 0;
  double device_watts = 0;
  double dollars_per_kwh = 0;
};

// INVALID_ARGUMENT, with file and line, for an unknown key and for a price that is missing,
// negative or not a number; NOT_FOUND.
Result<Prices> read_prices(const std::string& path);

}  // namespace outrider
