// The text of a config.json: an accepted one is bounded, and survives writing and reading.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/config.h"

namespace {

void check(bool condition) {
  if (!condition) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = outrider::parse_config(text, "fuzzed");
  if (!config.ok()) return 0;
  check(config->num_heads % config->num_kv_heads == 0);
  check(config->head_dim >= 2 && config->head_dim % 2 == 0);
  check(config->windows.size() == static_cast<std::size_t>(config->num_layers));
  for (const float frequency : outrider::rope_frequencies(config->rope, config->head_dim)) {
    check(frequency > 0 && frequency <= 1);
  }
  check(outrider::num_parameters(*config) > 0);
  const outrider::StoredQuantization& stored = config->quantization;
  check(stored.bits >= 0 && stored.bits <= 8 && stored.group_size >= 0);
  check((stored.block_rows > 0) == (stored.block_columns > 0));
  const outrider::Json json = outrider::config_to_json(*config, "float32");
  const auto again = outrider::parse_config(json.dump(), "written");
  check(again.ok() && outrider::config_to_json(*again, "float32") == json);
  return 0;
}
