// The input that a pass sends to each device before its kernels run: embedded tokens, angles,
// cells, and the positions that each row sees, for rows of any number of sequences.
//
// Passes of one shape have everything at the same places, so that one graph serves them all. Rows
// and bundles are filled up to round numbers: by rows that look at themselves only, in a spare
// cell.
//
// Memory on the host and on a device; the host has SeenRows for each device:
//   inputs  [rows] embedded, cosines, sines, slots; [wanted], how their tokens are chosen;
//           [bundles]; [windows][rows] SeenRows
//   lists   the slots that SeenRows name, of one pass
//
// Thread rule: one thread. Ownership: everything passed in outlives this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/cpu/cpu_weights.h"
#include "common/engine/model/cuda/device/device_api.h"
#include "common/engine/model/cuda/device/device_kv.h"
#include "common/engine/model/model.h"

namespace outrider::cuda {

struct PassShape {
  std::int64_t rows = 0;      // filled up
  std::int64_t wanted = 0;    // rows whose logits are computed, filled up; may be 0
  std::int64_t bundles = 0;   // filled up
  std::int64_t parts = 0;     // of positions, of the longest row; a power of two
  bool gives_logits = false;  // of some row that wants them
  bool chooses = false;       // a token of some row
  bool filters = false;       // by top_k or top_p

  friend auto operator<=>(const PassShape&, const PassShape&) = default;
};

// So many rows are computed for `count`, at most `most`.
std::int64_t fill_up(std::int64_t count, std::int64_t most);

// Where a pass of one shape finds its inputs on a device.
struct DeviceInput {
  float* hidden = nullptr;     // [rows, pad(hidden)]
  const float* cos = nullptr;  // [rows, head_dim / 2]
  const float* sin = nullptr;
  const std::int32_t* slots = nullptr;   // [rows], of the pool
  const std::int32_t* wanted = nullptr;  // [wanted], rows
  const RowChoice* choices = nullptr;    // [wanted]
  const Bundle* bundles = nullptr;
  const SeenRow* seen = nullptr;  // [windows][rows]
};

class PassInput final {
 public:
  // windows: the different ones of the layers. weights: outlive it; rows come from its embedding.
  static Result<PassInput> make(DeviceApi& api, const CpuWeights& weights,
                                std::vector<std::int64_t> windows, std::int64_t max_rows);

  // The bytes that make() allocates for one device, with those on the host, for paths of so many
  // positions.
  static std::int64_t memory_bytes(const ModelConfig& config, std::int64_t windows,
                                   std::int64_t max_rows, Position max_positions);

  // Fills the host's memory. rows: checked, at most max_rows; their caches are in DeviceKvPages.
  // Errors: RESOURCE_EXHAUSTED if the lists do not fit the device.
  Result<PassShape> prepare(std::span<const Row> rows);
  // Puts the uploads to a device into one of its streams; prepare() is not called before they are
  // done.
  void upload(int device, Stream stream);

  // A draft's shortlist has its logits at other places than its tokens.
  bool can_choose() const {
    return config_.head_tokens.empty() && config_.vocab_size <= kMaxChoiceTokens;
  }
  DeviceInput on_device(int device, const PassShape& shape) const;
  // The index of a layer's window in DeviceInput::seen.
  std::int64_t window_index(std::int64_t window) const;

 private:
  // Offsets in bytes.
  struct Layout {
    std::int64_t cos, sin, slots, wanted, choices, bundles, seen, end;
  };
  // A row's path: its first positions are in its sequence's list, the others in one of its own.
  struct Path {
    std::size_t common = 0;  // offsets in lists_
    std::size_t own = 0;
    std::int32_t num_common = 0;
    std::int32_t length = 0;
  };

  PassInput(DeviceApi& api, const CpuWeights& weights, std::vector<std::int64_t> windows,
            std::int64_t max_rows);
  static PassShape largest_shape(const ModelConfig& config, std::int64_t max_rows);
  static Layout layout_of(const ModelConfig& config, std::int64_t windows, const PassShape& shape);
  Layout layout(const PassShape& shape) const {
    return layout_of(config_, std::ssize(windows_), shape);
  }
  std::int64_t seen_bytes(const PassShape& shape) const;
  template <class T>
  T* on_host(std::int64_t offset) const {
    return reinterpret_cast<T*>(host_.data() + offset);
  }

  void add_sequence(std::span<const Row> rows);
  void add_path(const Row& row);
  void add_bundles(std::int64_t first_row, std::int64_t end_row);
  void add_choice(const Row& row);
  void fill_up_rows(std::int64_t rows);
  Status write_rows(std::span<const Row> rows);
  void write_seen();
  Status grow_lists();

  DeviceApi& api_;
  const CpuWeights& weights_;
  const ModelConfig& config_;
  const std::vector<std::int64_t> windows_;
  const std::int64_t max_rows_;
  const std::int64_t hidden_stride_, half_, shared_;
  const std::vector<float> frequencies_;

  DeviceMemory host_, host_lists_;
  std::vector<DeviceMemory> devices_, device_lists_;  // by device

  // The shape and the paths of the last prepare().
  PassShape shape_;
  std::vector<Path> paths_;  // by row
  std::vector<std::int32_t> slots_, wanted_, lists_;
  std::vector<RowChoice> choices_;
  std::vector<Bundle> bundles_;
  // The cells of the sequence that is added.
  std::vector<KvCell> chain_, path_;  // cells of the memory
  std::vector<std::int32_t> own_;
};

}  // namespace outrider::cuda
