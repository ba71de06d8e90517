// A deterministic language model of a few tokens, for tests of everything above Model: the logits
// of a row are a hash of the tokens on its path. It keeps each row's token in its KV cell and reads
// the path from there, so a row in a wrong cell, a lost page or a cell used twice changes the text.
// A tap sees the path's tokens as the hidden state of every layer. Logits that are asked for on
// demand are NaN until they are computed.
//
// Thread rule: as model.h says. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/engine/model/cell_values.h"
#include "common/engine/model/model.h"
#include "common/engine/sampling/sampling.h"
#include "emulation/random/random.h"

namespace outrider {

// Which token each cell holds.
using ToyPages = CellValues<TokenId>;

// Writes the row's token to its cell, and reads the tokens of its path, its own last.
void write_token(const Row& row);
std::vector<TokenId> read_path(const Row& row);

class ToyModel final : public Model, public RowLogits {
 public:
  explicit ToyModel(std::int32_t vocab_size = 8, Position max_positions = 256);

  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override;
  Status forward(std::span<const Row> rows, PassOutput& out) override;

  Status compute(std::span<const std::size_t> rows, PassOutput& out) override;
  void end() override { held_.clear(); }
  // How many rows' logits were asked for on demand so far.
  std::size_t rows_demanded() const { return rows_demanded_; }

  // The next forward() calls fail with RESOURCE_EXHAUSTED.
  void fail_next_passes(int count) { failing_passes_ = count; }
  // The last wanted row of the next forward() calls is all NaN and -infinity.
  void spoil_next_passes(int count) { spoiled_passes_ = count; }

  // While held, forward() does not return. Release it before the engine ends.
  void hold_passes(bool hold) {
    held_back_ = hold;
    held_back_.notify_all();
  }

  // Sets the memory that its caches are assumed to use; none unless set.
  void set_kv_bytes_per_position(std::int64_t bytes) { info_.kv_bytes_per_position = bytes; }
  // The next forward() calls fail with INTERNAL, as a device does that is lost.
  void break_next_passes(int count) { broken_passes_ = count; }

  // The logits after a text, [vocab]: what forward() gives for a row whose path has these tokens.
  std::vector<float> logits_after(std::span<const TokenId> text) const;

  // The path of a row that a tap was shown.
  static std::vector<TokenId> text_of_hidden(std::span<const float> row);

  // Decoding by the target alone, from the prefix to end_position or the first stop id: the text
  // (prefix included) that every verifying session must give.
  std::vector<TokenId> decode(std::span<const TokenId> prefix, Position end_position,
                              const SamplingParams& sampling, std::uint64_t seed,
                              std::span<const TokenId> stop_ids = {},
                              const ChoiceSettings& settings = {}) const;

 private:
  std::vector<float> hidden_of(const std::vector<std::vector<TokenId>>& texts) const;
  void show(LayerTap& tap, const std::vector<std::vector<TokenId>>& texts) const;
  void prune(const std::vector<std::vector<TokenId>>& texts, PassOutput& out) const;

  ModelInfo info_;
  std::vector<float> held_;  // the logits of a pass that may be asked for
  std::size_t rows_demanded_ = 0;
  // Set by a test while an engine's thread counts them down.
  std::atomic<int> failing_passes_ = 0;
  std::atomic<int> spoiled_passes_ = 0;
  std::atomic<int> broken_passes_ = 0;
  std::atomic<bool> held_back_ = false;
};

// ChoiceSettings once more, token by token over the whole text: the row that is chosen from.
// prompt: the text's tokens that are no answer's.
std::vector<float> adjusted_plainly(std::vector<float> row, std::span<const TokenId> text,
                                    std::size_t prompt, std::span<const TokenId> stop_ids,
                                    const ChoiceSettings& settings);

// Settings of any kind that leave a token of each row; vocab_size: at least 3. Where they have a
// constraint, token 0 must end the answer (toy_form.h).
ChoiceSettings drawn_settings(SeededRandom& random, std::int32_t vocab_size);

}  // namespace outrider
