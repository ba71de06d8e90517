// The small sibling of ToyModel: says what the target says, as far as `strays` lets it, and counts
// its work. Thread rule: as model.h says; the counts may be read from any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/engine/model/model.h"
#include "tests/sim/toy_model.h"

namespace outrider {

class ToyDraft final : public Model {
 public:
  // strays: how far its logits lie from the target's, whose own span 4. At 1 it often agrees, at 0
  // always. The target must outlive it. padding: by how many tokens its vocabulary is larger than
  // the target's; it likes to say them.
  explicit ToyDraft(const ToyModel& target, float strays = 0, Position max_positions = 1000,
                    std::int32_t padding = 0);

  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override;
  // Fails for a token outside the vocabulary and for a position outside the context.
  Status forward(std::span<const Row> rows, PassOutput& out) override;

  // The same as ToyModel's.
  void set_kv_bytes_per_position(std::int64_t bytes) { info_.kv_bytes_per_position = bytes; }

  int passes() const { return passes_.load(std::memory_order_relaxed); }
  std::size_t rows_run() const { return rows_run_.load(std::memory_order_relaxed); }

 private:
  std::vector<float> logits_after(std::span<const TokenId> text) const;

  const ToyModel& target_;
  const float strays_;
  ModelInfo info_;
  std::atomic<int> passes_ = 0;
  std::atomic<std::size_t> rows_run_ = 0;
};

}  // namespace outrider
