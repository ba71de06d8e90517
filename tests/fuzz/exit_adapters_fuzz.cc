// The text of an adapters.json: what is let through can be written again and read back alike, and
// holds what the exits rely on. SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "common/exits/adapters.h"

namespace {

void check(bool condition) {
  if (!condition) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = outrider::parse_adapter_index(text, "fuzzed");
  if (!index.ok()) return 0;
  const outrider::ExitAdapters& adapters = index->adapters;
  std::int32_t last = 0;
  for (const outrider::ExitAdapter& exit : adapters.exits) {
    check(exit.layer > last && exit.layer < adapters.num_layers && exit.bottleneck > 0);
    last = exit.layer;
    for (const outrider::Calibration& one : exit.calibration) {
      check(std::abs(one.prior.at(outrider::log_odds(1))) <= outrider::kMaxMargin);
      for (const float margin : {0.0f, 0.5f, outrider::kMaxMargin}) {
        const outrider::RowEvidence rows[] = {{outrider::RowKind::kDrafted, margin},
                                              {outrider::RowKind::kCorrected, margin}};
        const double sure = outrider::confidence(one, rows);
        check(sure >= 0 && sure <= 1);
      }
    }
  }
  for (const outrider::TokenId token : adapters.shortlist) {
    check(token >= 0 && token < adapters.vocab_size);
  }
  const auto again = outrider::parse_adapter_index(outrider::adapter_index_text(*index), "again");
  check(again.ok() && again->adapters.exits.size() == adapters.exits.size());
  // Weights that are not there must not be found.
  outrider::ExitAdapters empty = adapters;
  check(!outrider::attach_adapter_weights(empty, {}, index->weights_digest, "none").ok());
  return 0;
}
