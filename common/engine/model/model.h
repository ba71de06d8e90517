// A language model's interface to the rest of Outrider: rows in, logits out, explicit KV slots.
//
// A pass takes rows of any number of sequences. A row is one token in one slot; it sees the slots
// on its path (kv_slots.h), so a chain, a tree and a prefill chunk are the same thing. Rows of one
// pass may follow each other: a parent's row comes before its children's. Each row's logits have
// the same bits whatever other rows are in the pass (docs/row-invariance.md).
//
//   auto cache = *model.new_cache(capacity);
//   Slot slot = *cache->slots().append(kRootSlot);
//   PassOutput out;
//   model.forward({{cache.get(), slot, token, true}}, out);   // out.logits: [1, vocab] f32
//   cache->slots().commit(slot);
//
// Thread rule: one compute thread owns a model and its caches. info() may be read from any thread.
// Errors: forward() checks tokens and slots before it changes a cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/model/kv_slots.h"

namespace outrider {

class ThreadPool;
struct LayerHeads;
struct TokenChoice;

// Constant facts about a loaded model.
struct ModelInfo {
  std::string name;              // the directory's last component; of a level: "NAME@LEVEL"
  std::string architecture;      // "llama", "mistral", "qwen2", "qwen3", "null"
  std::string fingerprint;       // hex; same weights and config <=> same fingerprint, any dtype. A
                                 // level of an elastic model has one of its own
  std::string arithmetic_id;     // hex; same fingerprint, dtype, kernel version, device class (L1)
  std::string dtype;             // as computed: "f32", "bf16", "int8", "int4"
  std::string kv_dtype = "f32";  // of keys and values: "f32", "bf16"
  std::int32_t vocab_size = 0;
  std::int32_t hidden_size = 0;
  std::int32_t num_layers = 0;
  Position max_positions = 0;  // longest prefix + answer the model may see
  std::int64_t num_parameters = 0;
  std::int64_t weight_bytes = 0;           // read per single-row pass
  std::int64_t kv_bytes_per_position = 0;  // memory of a KV cache, all layers; 0: none
  std::int32_t most_kv_pages = 0;          // of all caches together; 0: what the system gives
  std::vector<TokenId> stop_ids;           // from generation_config.json or config.json: eos
};

// The keys and values of one sequence, in pages that it may share with others. Only the model whose
// pages they are reads it.
class KvCache final {
 public:
  // capacity, owner: as KvSlots says. level: of an elastic model, which computes this sequence.
  KvCache(std::shared_ptr<KvPages> pages, std::int32_t capacity, std::int32_t owner = 0,
          std::size_t level = 0)
      : pages_(std::move(pages)), slots_(*pages_, capacity, owner), level_(level) {}

  KvPages& pages() const { return *pages_; }
  std::size_t level() const { return level_; }
  KvSlots& slots() { return slots_; }
  const KvSlots& slots() const { return slots_; }

 private:
  std::shared_ptr<KvPages> pages_;
  KvSlots slots_;
  std::size_t level_;
};

struct Row {
  KvCache* cache;
  Slot slot;
  TokenId token;
  bool wants_logits = true;
  // How the token behind the row will be chosen, if nothing but that is wanted of its logits: a
  // backend may choose it (PassOutput::chosen). Null: the logits are wanted.
  const TokenChoice* choice = nullptr;
};

// The residual stream of rows that want logits, after one of the layers.
struct HiddenRows {
  std::int32_t layer = 0;         // layers passed: 1 .. num_layers - 1
  std::size_t first = 0;          // index of the first of these rows among all that want logits
  std::size_t count = 0;          // at least 1
  std::size_t width = 0;          // hidden_size
  const float* values = nullptr;  // [count, width] f32, valid during the call
  ThreadPool* threads = nullptr;  // idle during the call, free to use; null: the model has none
  // [count, num_head_logits] f32 of the layer's head, if the model computes it (take_heads()).
  const float* head_logits = nullptr;
  std::size_t num_head_logits = 0;

  std::span<const float> row(std::size_t index) const { return {values + index * width, width}; }
};

// Receives hidden states during a pass: early exits and their training read them.
//
// on_layer() runs on the thread that called forward(). On the CPU it runs between two layers, so
// its time adds to the pass; on a GPU later layers run meanwhile, and what is late does not come. A
// backend may compute a long pass in parts, each through all layers; `first` tells the parts apart.
// All parts except the first are full, so that the last rows of a long prompt come together.
class LayerTap {
 public:
  virtual ~LayerTap() = default;
  virtual bool wants(std::int32_t layer) const = 0;
  virtual void on_layer(const HiddenRows& rows) = 0;
};

// Drops rows in the middle of a pass, so that later layers need not compute them (LEVER, section
// 4.3; docs/pruning.md). The bits of the other rows do not change.
//
// prune() runs on the thread that called forward(), between two layers and after the tap. A backend
// may ignore it: then every row is computed to the end.
class RowPruner {
 public:
  virtual ~RowPruner() = default;
  virtual bool wants(std::int32_t layer) const = 0;
  // keep: [rows.count], all 1. A row set to 0 is dropped, with the rows that follow it: it has no
  // logits, and no keys and values in later layers.
  virtual void prune(const HiddenRows& rows, std::span<std::uint8_t> keep) = 0;
};

struct PassOutput;

// Computes the logits of a pass on demand, for a caller that does not need those of all rows
// (LEVER, section 4.4).
//
//   forward (compute* end)
//
// Thread rule: the thread that called forward(), before its next call.
class RowLogits {
 public:
  virtual ~RowLogits() = default;
  // Writes the logits of these rows, each by its index among those that wanted them. None of them
  // was dropped. Errors: CANCELLED if the pass was abandoned meanwhile.
  virtual Status compute(std::span<const std::size_t> rows, PassOutput& out) = 0;
  // No more logits are needed.
  virtual void end() = 0;
};

// Reused from pass to pass, so that a running server allocates nothing.
struct PassOutput {
  bool is_abandoned() const {
    return !abandoned.empty() && std::ranges::all_of(abandoned, [](const std::atomic<bool>* flag) {
      return flag->load(std::memory_order_relaxed);
    });
  }

  LayerTap* tap = nullptr;      // set by the caller; null: no tap and no cost
  RowPruner* pruner = nullptr;  // set by the caller; null: no row is dropped
  // Set by the caller: one flag for each owner of rows. A flag becomes true, perhaps during the
  // pass, when that owner's rows are obsolete. Once all are true the pass may end early with
  // CANCELLED and without keys and values. Empty: never abandoned.
  std::span<const std::atomic<bool>* const> abandoned = {};
  // Set by the caller: called after each layer with the number of finished layers, on the thread
  // that called forward(). May be empty. A backend may ignore it.
  std::function<void(std::int32_t done, std::int32_t layers)> on_layer_done = {};
  // Set by the caller: logits are computed on demand, after the pass. A backend may ignore it.
  bool on_demand = false;
  // Set by a backend that computes logits on demand; null: `logits` has all rows.
  RowLogits* row_logits = nullptr;
  // Set by a backend: idle from the end of the pass to the next call, free to use meanwhile. Null:
  // it has none.
  ThreadPool* threads = nullptr;
  std::int32_t vocab_size = 0;
  // Added by a backend: time for which the pass yielded the processor before it computed.
  Duration waited{0};
  // [rows that wanted them and were not dropped, in row order; vocab_size] f32
  std::vector<float> logits = {};
  // By row that wanted logits: its place in `logits`, -1 if it was dropped. Empty: none was.
  std::vector<std::int32_t> places = {};
  // By row that wanted logits: the token that the law of choice gives
  // (common/engine/sampling/sampling.h), then `logits` does not hold the row; kNotChosen: it does.
  // Empty: of no row.
  std::vector<TokenId> chosen = {};
  static constexpr TokenId kNotChosen = -1;

  // index: among the rows that wanted logits.
  bool has_row(std::size_t index) const { return places.empty() || places[index] >= 0; }
  TokenId chosen_of(std::size_t index) const { return chosen.empty() ? kNotChosen : chosen[index]; }
  std::span<const float> row(std::size_t index) const {
    const auto width = static_cast<std::size_t>(vocab_size);
    const std::size_t place = places.empty() ? index : static_cast<std::size_t>(places[index]);
    return std::span<const float>(logits).subspan(place * width, width);
  }
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;

  // Memory for the keys and values of several caches, 1 to KvPages::kMost pages. The system gives
  // it as it is used, where it can. RESOURCE_EXHAUSTED if there is not enough.
  virtual Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) = 0;
  // A cache for `capacity` slots in pages of its own. RESOURCE_EXHAUSTED as new_pages().
  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity);

  // Runs one pass: fills the rows' keys and values, writes the wanted logits. Blocks. A model
  // without layers (null) never calls the tap.
  virtual Status forward(std::span<const Row> rows, PassOutput& out) = 0;

  // From now on passes compute these heads (cpu/kernels/layer_heads.h) where a tap wants their
  // layers, and show it their logits too; in a pass with very many rows they may leave that out.
  // heads: read during the call only. UNIMPLEMENTED where the caller has to compute them;
  // RESOURCE_EXHAUSTED if they do not fit.
  virtual Status take_heads(const LayerHeads&) {
    return unimplemented("this model computes no heads on hidden states");
  }

  // Any thread. kDataLoss if a file from which passes read has changed its size since it was
  // opened: then every pass fails, and only loading it again helps.
  virtual Status check_unchanged() const { return {}; }
};

}  // namespace outrider
