// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/token_ids.h"

#include <cstdint>
#include <limits>

namespace outrider {

Result<std::vector<TokenId>> token_ids_of(const Json& json, const std::string& where) {
  if (!json.is_array()) return invalid_argument(where + ": expected one JSON array of ids");
  std::vector<TokenId> ids;
  for (const Json& item : json) {
    const bool fits = item.is_number_integer() && item.get<std::int64_t>() >= 0 &&
                      item.get<std::int64_t>() <= std::numeric_limits<TokenId>::max();
    if (!fits) {
      const std::string text = item.dump(-1, ' ', false, Json::error_handler_t::replace);
      return invalid_argument(where + ": " + text.substr(0, 40) + " is not a token id");
    }
    ids.push_back(static_cast<TokenId>(item.get<std::int64_t>()));
  }
  return ids;
}

}  // namespace outrider
