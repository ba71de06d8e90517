// The text of a generation_config.json: accepted end tokens are in the vocabulary.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int32_t kVocab = 32000;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto ids = outrider::parse_stop_ids(text, "fuzzed", kVocab);
  if (!ids.ok()) return 0;
  for (const outrider::TokenId id : *ids) OUTRIDER_CHECK(id >= 0 && id < kVocab);
  return 0;
}
