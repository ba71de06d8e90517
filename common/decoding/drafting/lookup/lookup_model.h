// Look-up (look_up.h) with the interface of a model, so whatever drafts with a model drafts with
// it; its step takes microseconds. Where nothing matches, a row has no logits.
//
// It keeps each row's token in its KV cell. What becomes text is looked up in from then on; a
// text that is cut short stays there as an earlier one. So it is meant for one sequence at a time.
//
// Logits: log p of the tokens that followed, and for all others the rest of the probability in
// equal parts. Thread rule: as model.h says. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/decoding/drafting/lookup/look_up.h"
#include "common/engine/model/model.h"

namespace outrider {

struct LookupOptions {
  std::int32_t vocab_size = 0;       // of the target's tokenizer
  Position max_positions = 1 << 18;  // of one text
  std::size_t max_tokens = 1 << 20;  // of all texts that are remembered; 12 bytes each
};

class LookupModel final : public Model {
 public:
  explicit LookupModel(const LookupOptions& options);

  // Texts to find matches in, before the first pass.
  void remember(std::span<const TokenId> text) { look_up_.remember(text); }

  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override;
  Status forward(std::span<const Row> rows, PassOutput& out) override;

 private:
  void take_text(const KvCache& cache);
  void write_logits(std::span<const Guess> guesses, PassOutput& out) const;

  ModelInfo info_;
  LookUp look_up_;
};

}  // namespace outrider
