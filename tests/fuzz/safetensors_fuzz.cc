// Bytes of a weight file: every accepted tensor lies in the file, aligned and without overlap.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/safetensors.h"

namespace {

void check(bool condition) {
  if (!condition) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto entries = outrider::parse_safetensors(bytes, "fuzzed");
  if (!entries.ok()) return 0;
  std::uint64_t end = entries->empty() ? size : entries->front().begin;
  for (const outrider::SafetensorsEntry& entry : *entries) {
    const auto needed = outrider::tensor_bytes(entry.dtype, entry.shape);
    check(entry.begin == end && entry.end >= entry.begin);
    check(needed.ok() && *needed == entry.end - entry.begin);
    check(outrider::block_elements(entry.dtype) == 1);
    check(entry.begin % static_cast<std::uint64_t>(outrider::block_bytes(entry.dtype)) == 0);
    end = entry.end;
  }
  check(end == size);
  return 0;
}
