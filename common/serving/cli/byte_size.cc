// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/byte_size.h"

#include <charconv>
#include <limits>

namespace outrider {

std::optional<std::int64_t> parse_byte_size(std::string_view text) {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  const std::string_view suffix(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const std::size_t power = suffix.empty() ? 0 : std::string_view(" KMG").find(suffix);
  if (suffix.size() > 1 || power == std::string_view::npos || (!suffix.empty() && power == 0)) {
    return std::nullopt;
  }
  const int shift = static_cast<int>(10 * power);
  if (value > (std::numeric_limits<std::int64_t>::max() >> shift)) return std::nullopt;
  return value << shift;
}

}  // namespace outrider
