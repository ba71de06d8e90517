// The text of an adapters.json: an accepted text can be written and read back unchanged, and holds
// what the exits rely on. The input is also used as adapters.safetensors beside a valid text: if
// accepted, it has the exits' shapes and finite numbers.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/sha256.h"
#include "common/decoding/exits/adapters.h"
#include "common/engine/model/format/dtype.h"

namespace {

void check(bool condition) {
  if (!condition) __builtin_trap();
}

void read_index(std::string_view text) {
  const auto index = outrider::parse_adapter_index(text, "fuzzed");
  if (!index.ok()) return;
  const outrider::ExitAdapters& adapters = index->adapters;
  std::int32_t last = 0;
  for (const outrider::ExitAdapter& exit : adapters.exits) {
    check(exit.layer > last && exit.layer < adapters.num_layers && exit.bottleneck >= 0);
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
}

// One exit with a bottleneck, and one with a head of its own.
outrider::ExitAdapters small_adapters() {
  outrider::ExitAdapters adapters;
  adapters.fingerprint = std::string(64, 'f');
  adapters.hidden_size = 4;
  adapters.num_layers = 3;
  adapters.vocab_size = 9;
  adapters.shortlist = {1, 5, 8};
  adapters.exits.push_back({.layer = 1, .bottleneck = 2});
  adapters.exits.push_back({.layer = 2, .bottleneck = 0});
  return adapters;
}

void read_weights(std::span<const std::byte> file) {
  outrider::Sha256 hash;
  hash.update({reinterpret_cast<const char*>(file.data()), file.size()});
  outrider::ExitAdapters adapters = small_adapters();
  if (!outrider::attach_adapter_weights(adapters, file, hash.finish_hex(), "fuzzed").ok()) return;
  const outrider::ExitAdapter& narrow = adapters.exits[0];
  check(narrow.norm.size() == 4 && narrow.down.size() == 8 && narrow.up.size() == 8);
  check(adapters.exits[1].head.size() == 12);
  for (const float value : narrow.norm) check(std::isfinite(value));
  for (const std::uint16_t bits : adapters.exits[1].head) {
    check(std::isfinite(outrider::from_bf16(bits)));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read_index({reinterpret_cast<const char*>(data), size});
  read_weights(std::as_bytes(std::span(data, size)));
  return 0;
}
