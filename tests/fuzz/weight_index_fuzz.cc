// The text of a model.safetensors.index.json: no file name leads out of the model directory.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/safetensors.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = outrider::parse_weight_index(text, "fuzzed");
  if (!index.ok()) return 0;
  for (const auto& [tensor, file] : *index) {
    const bool leads_out = file.find('/') != std::string::npos || file.starts_with('.') ||
                           file.find('\0') != std::string::npos;
    if (leads_out) __builtin_trap();
  }
  return 0;
}
