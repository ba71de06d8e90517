// The text of an elastic.json: an accepted one is nested, has permutations and whole groups, and
// survives writing and reading. SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/elastic_table.h"

#include <cstddef>
#include <cstdint>
#include <set>

namespace {

void check(bool condition) {
  if (!condition) __builtin_trap();
}

outrider::ModelConfig two_layers() {
  outrider::ModelConfig config;
  config.vocab_size = 40;
  config.hidden_size = 48;
  config.intermediate_size = 96;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  return config;
}

void check_permutation(const std::vector<std::int32_t>& order, std::int32_t count) {
  if (order.empty()) return;
  const std::set<std::int32_t> seen(order.begin(), order.end());
  check(std::ssize(order) == count && std::ssize(seen) == count && *seen.begin() == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string fingerprint(64, 'f');
  const auto table = outrider::parse_elastic_table(text, two_layers(), fingerprint, "fuzzed");
  if (!table.ok()) return 0;
  for (const outrider::LayerOrder& layer : table->order) {
    check_permutation(layer.neurons, 96);
    check_permutation(layer.kv_groups, 2);
  }
  const outrider::ElasticLevel* outer = &table->full();
  for (const outrider::ElasticLevel& level : table->levels) {
    for (std::size_t i = 0; i < 2; ++i) {
      check(level.layers[i].neurons % 32 == 0);
      check(level.layers[i].neurons <= outer->layers[i].neurons);
      check(level.layers[i].kv_groups <= outer->layers[i].kv_groups);
    }
    outer = &level;
  }
  const std::string written = outrider::elastic_table_text(*table);
  const auto again = outrider::parse_elastic_table(written, two_layers(), fingerprint, "written");
  check(again.ok() && outrider::elastic_table_text(*again) == written);
  return 0;
}
