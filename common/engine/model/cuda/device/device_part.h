// One device's part of a pass: its outputs of every matrix and its heads (device_split.h), through
// the stages of the cpu backend's pass (common/engine/model/cpu/cpu_pass.h), with its bits.
//
// Rows of activations that a matrix reads are whole on every device. A stage ends where a device
// has written its columns of such rows; the pass then brings these columns to the other devices.
//
//   (attention exchange output exchange gate exchange down exchange)* head
//
// Thread rule: one thread. Ownership: everything passed in outlives this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/cuda/device/device_api.h"
#include "common/engine/model/cuda/device/device_kv.h"
#include "common/engine/model/cuda/device/device_weights.h"
#include "common/engine/model/cuda/device/pass_input.h"

namespace outrider::cuda {

// The columns that one device computes in rows that every device needs whole.
struct Columns {
  std::byte* rows = nullptr;
  std::int64_t pitch = 0;  // bytes from row to row
  std::int64_t begin = 0;  // of the columns, in bytes of a row
  std::int64_t bytes = 0;
};

// The bounds of a pass's memory. They change no bit.
struct PassBounds {
  std::int64_t rows = 512;  // most that are computed together
  // Most floats of attention's scratch memory: longer contexts are computed with fewer rows at a
  // time.
  std::int64_t scratch_floats = std::int64_t{64} << 20;
};

class DevicePart final {
 public:
  // max_positions: of a row's path. Errors: RESOURCE_EXHAUSTED if scratch memory does not fit.
  static Result<DevicePart> make(DeviceApi& api, const DeviceWeights& weights,
                                 const DeviceKvMemory& kv, const PassInput& input, int device,
                                 const PassBounds& bounds, Position max_positions);

  // The bytes that make() allocates on a device that computes alone.
  static std::int64_t memory_bytes(const ModelConfig& config, const PassBounds& bounds,
                                   Position max_positions);

  // The input of the stages that are put into the stream from now on.
  void use(const PassInput& input) { input_ = &input; }

  Stream stream() const { return stream_; }
  // Stands for what the stream has done, for other streams.
  Event ready() const { return ready_; }

  // Most rows of a part of a pass whose longest row sees so many positions.
  std::int64_t max_rows(Position positions) const;

  // Put a layer's stages into the stream: up to attention's result, its product with o, up to the
  // activation function, and the product with down. from: the layer of this device's weights, or of
  // a level of them.
  void attention(const PassShape& shape, const DeviceLayer& from, std::size_t layer);
  void output(const PassShape& shape, const DeviceLayer& from);
  void gate(const PassShape& shape, const DeviceLayer& from);
  void down(const PassShape& shape, const DeviceLayer& from);
  // The last norm, and this device's logits. from: the output matrix.
  void head(const PassShape& shape, const DeviceLinear& from);

  // The results of these stages, in the forms that the next matrix takes.
  Columns hidden_columns() const;
  Columns attended_columns(std::size_t layer) const;
  Columns gate_columns(std::size_t layer) const;
  // Logits of the rows that want them: on the first device whole rows, on others its columns alone.
  float* logits() const { return logits_; }
  std::int64_t logits_stride() const { return logits_stride_; }
  Share logits_share() const { return split_.head(device_); }

 private:
  // Rows between two stages: f32, quantised, or both, as the next matrices take them.
  struct Activations {
    float* values = nullptr;  // [bounds_.rows, stride]
    std::byte* quantized = nullptr;
    std::int64_t count = 0;
    std::int64_t stride = 0;
  };

  // The bytes of what memory_ holds.
  struct Pieces;

  DevicePart(DeviceApi& api, const DeviceWeights& weights, const DeviceKvMemory& kv,
             const PassInput& input, int device, const PassBounds& bounds);
  Status allocate(Position max_positions);
  const DeviceLayer& layer(std::size_t index) const { return weights_.layers[index]; }
  float* hidden() const { return input_->on_device(device_, {}).hidden; }
  void normalize(const PassShape& shape, const float* weight, bool values, bool quantized);
  void place_and_attend(const PassShape& shape, const DeviceLayer& from, std::size_t layer);
  void multiply_all(std::span<const Product> products, const Activations& x, std::int64_t rows);
  static Columns columns_of(const Activations& rows, const Share& share,
                            const DeviceLinear& reader);

  // Constant after construction.
  DeviceApi& api_;
  const WeightsOnDevice& weights_;
  const ModelConfig& config_;
  const DeviceKvMemory& kv_;
  const DeviceSplit split_;
  const int device_;
  const PassBounds bounds_;
  const Stream stream_;
  const Event ready_;
  const Heads heads_;  // of this device, of whole layers
  const std::int64_t hidden_stride_, head_stride_, logits_stride_;
  std::int64_t scratch_floats_ = 0;  // of attention
  DeviceMemory memory_;              // what the pointers below point into
  Activations normed_, attended_, gate_;
  float *queries_ = nullptr, *keys_ = nullptr, *values_ = nullptr, *rotated_ = nullptr;
  float *up_ = nullptr, *scratch_ = nullptr;
  float* logits_ = nullptr;  // [bounds_.rows, logits_stride]

  const PassInput* input_;  // of the stages at hand
};

}  // namespace outrider::cuda
