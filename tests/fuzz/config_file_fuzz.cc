// The file behind --config: any bytes give entries or an error that names the line.
// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/config_file.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto entries = outrider::parse_config_entries(text, "fuzz");
  if (!entries.ok()) {
    OUTRIDER_CHECK(entries.status().message().starts_with("fuzz:"));
    return 0;
  }
  for (const outrider::ConfigEntry& entry : *entries) OUTRIDER_CHECK(!entry.key.empty());
  return 0;
}
