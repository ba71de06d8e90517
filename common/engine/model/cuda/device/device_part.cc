// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/device_part.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/engine/model/cuda/kernels/lane_panels.h"

namespace outrider::cuda {
namespace {

std::int64_t parts_of(Position positions) {
  const auto parts = (static_cast<std::uint64_t>(positions) + kAttentionPart - 1) / kAttentionPart;
  return static_cast<std::int64_t>(std::bit_ceil(std::max<std::uint64_t>(parts, 1)));
}

bool is_quantized(const DeviceLinear& linear) {
  return linear.matrix.type == WeightType::kQuantized;
}

// Floats of attention for a row that sees so many positions.
std::int64_t scratch_row(std::int64_t heads, std::int64_t head_stride, Position positions) {
  return heads * parts_of(positions) * (kAttentionPart + head_stride + kPartialExtra);
}

// The forms in which some matrices read their rows.
struct Forms {
  bool values = false, quantized = false;

  explicit Forms(std::initializer_list<const DeviceLinear*> readers) {
    for (const DeviceLinear* reader : readers) {
      (is_quantized(*reader) ? quantized : values) = true;
    }
  }
};

bool is_one_launch(const Product& a, const Product& b) {
  const WeightMatrix &x = a.weights, &y = b.weights;
  return x.type == y.type && x.inputs == y.inputs && x.row_inputs() == y.row_inputs() &&
         (x.type != WeightType::kQuantized || x.format == y.format);
}

// To a device's columns of rows.
Product product(const DeviceLinear& linear, float* rows, std::int64_t begin, std::int64_t stride,
                bool add = false) {
  return {linear.matrix, {rows + begin, stride, linear.bias, add}};
}

}  // namespace

Result<DevicePart> DevicePart::make(DeviceApi& api, const DeviceWeights& weights,
                                    const DeviceKvMemory& kv, const PassInput& input, int device,
                                    const PassBounds& bounds, Position max_positions) {
  DevicePart part(api, weights, kv, input, device, bounds);
  OUTRIDER_RETURN_IF_ERROR(part.allocate(max_positions));
  return part;
}

DevicePart::DevicePart(DeviceApi& api, const DeviceWeights& weights, const DeviceKvMemory& kv,
                       const PassInput& input, int device, const PassBounds& bounds)
    : api_(api),
      weights_(weights.on_device(device)),
      config_(weights.about().files->config),
      kv_(kv),
      split_(config_, api.devices()),
      device_(device),
      bounds_(bounds),
      stream_(kv.stream(device)),
      ready_(api.new_event(device)),
      heads_{split_.queries(device).count() / config_.head_dim, split_.kv_heads(device).count(),
             config_.head_dim},
      hidden_stride_(pad_to_lanes(config_.hidden_size)),
      head_stride_(pad_to_lanes(config_.head_dim)),
      logits_stride_(device == 0 ? config_.head_size() : split_.head(device).count()),
      input_(&input) {}

// In the order in which they lie, each at a multiple of 256.
struct DevicePart::Pieces {
  std::int64_t scratch_floats = 0;
  std::vector<std::int64_t> bytes;

  Pieces(const ModelConfig& config, const DeviceSplit& split, int device, const PassBounds& bounds,
         Position max_positions) {
    const std::int64_t heads = split.queries(device).count() / config.head_dim;
    const std::int64_t row = scratch_row(heads, pad_to_lanes(config.head_dim), max_positions);
    scratch_floats = std::max(std::min(bounds.rows * row, bounds.scratch_floats), row);
    for (const std::int64_t count : {std::int64_t{config.hidden_size}, config.q_size(),
                                     std::int64_t{config.intermediate_size}}) {
      add(bounds.rows * pad_to_lanes(count) * 4);
      add(bounds.rows * quantized_row_bytes(count));
    }
    add(bounds.rows * split.queries(device).count() * 4);
    add(bounds.rows * split.keys(device).count() * 4);
    add(bounds.rows * split.keys(device).count() * 4);
    add(bounds.rows * heads * pad_to_lanes(config.head_dim) * 4);
    add(scratch_floats * 4);
    add(bounds.rows * (device == 0 ? config.head_size() : split.head(device).count()) * 4);
    add(bounds.rows * pad_to_lanes(config.intermediate_size) * 4);
  }

  void add(std::int64_t count) { bytes.push_back((count + 255) / 256 * 256); }
  std::int64_t all() const { return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}); }
};

std::int64_t DevicePart::memory_bytes(const ModelConfig& config, const PassBounds& bounds,
                                      Position max_positions) {
  return Pieces(config, DeviceSplit(config, 1), 0, bounds, max_positions).all();
}

Status DevicePart::allocate(Position max_positions) {
  const Pieces pieces(config_, split_, device_, bounds_, max_positions);
  scratch_floats_ = pieces.scratch_floats;
  OUTRIDER_ASSIGN_OR_RETURN(memory_,
                            DeviceMemory::make(api_, MemoryKind::kDevice, pieces.all(), device_));
  std::byte* at = memory_.data();
  std::size_t next = 0;
  const auto take = [&] { return std::exchange(at, at + pieces.bytes[next++]); };
  const auto floats = [&] { return reinterpret_cast<float*>(take()); };
  for (const auto& [x, count] : {std::pair{&normed_, std::int64_t{config_.hidden_size}},
                                 std::pair{&attended_, config_.q_size()},
                                 std::pair{&gate_, std::int64_t{config_.intermediate_size}}}) {
    x->count = count;
    x->stride = pad_to_lanes(count);
    x->values = floats();
    x->quantized = take();
  }
  for (float** const to : {&queries_, &keys_, &values_, &rotated_, &scratch_, &logits_, &up_}) {
    *to = floats();
  }
  api_.use(device_);
  // Zeros behind their rows stay: kernels write what is before them.
  for (const auto& [values, stride] :
       {std::pair{attended_.values, attended_.stride}, std::pair{gate_.values, gate_.stride},
        std::pair{up_, gate_.stride}}) {
    api_.fill_zero(reinterpret_cast<std::byte*>(values), bounds_.rows * stride * 4, stream_);
  }
  api_.signal(ready_, stream_);
  return api_.synchronize(ready_);
}

std::int64_t DevicePart::max_rows(Position positions) const {
  if (heads_.heads == 0) return bounds_.rows;
  const std::int64_t row = scratch_row(heads_.heads, head_stride_, positions);
  std::int64_t most = std::min(bounds_.rows, std::max<std::int64_t>(scratch_floats_ / row, 1));
  while (fill_up(most, bounds_.rows) > most) --most;  // filled up they fit too
  return most;
}

void DevicePart::normalize(const PassShape& shape, const float* weight, bool values,
                           bool quantized) {
  norm_and_quantize({hidden(), shape.rows, config_.hidden_size, hidden_stride_}, weight,
                    static_cast<float>(config_.rms_norm_eps), values ? normed_.values : nullptr,
                    quantized ? normed_.quantized : nullptr, stream_);
}

void DevicePart::attention(const PassShape& shape, const DeviceLayer& from, std::size_t index) {
  const std::int64_t queries = from.q.matrix.outputs, keys = from.k.matrix.outputs;
  if (queries == 0) return;
  api_.use(device_);
  const Forms forms({&from.q, &from.k, &from.v});
  normalize(shape, from.attention_norm, forms.values, forms.quantized);
  const Product projections[] = {product(from.q, queries_, 0, queries),
                                 product(from.k, keys_, 0, keys),
                                 product(from.v, values_, 0, keys)};
  multiply_all(projections, normed_, shape.rows);
  place_and_attend(shape, from, index);
}

void DevicePart::place_and_attend(const PassShape& shape, const DeviceLayer& from,
                                  std::size_t index) {
  const std::int64_t queries = from.q.matrix.outputs;
  const Heads heads{queries / config_.head_dim, from.k.matrix.outputs / config_.head_dim,
                    config_.head_dim};
  const DeviceInput in = input_->on_device(device_, shape);
  const KvPlanes planes = kv_.planes(device_, static_cast<std::int64_t>(index));
  place_heads({.rows = shape.rows,
               .shape = heads,
               .queries = queries_,
               .keys = keys_,
               .values = values_,
               .q_norm = from.q_norm,
               .k_norm = from.k_norm,
               .epsilon = static_cast<float>(config_.rms_norm_eps),
               .cos = in.cos,
               .sin = in.sin,
               .slots = in.slots,
               .rotated = rotated_,
               .planes = planes},
              stream_);
  const Attention attention{
      .shape = heads,
      .queries = rotated_,
      .rows = in.seen + input_->window_index(from.window) * shape.rows,
      .bundles = in.bundles,
      .num_rows = shape.rows,
      .num_bundles = shape.bundles,
      .parts = shape.parts,
      .scores = scratch_,
      .partials = scratch_ + shape.rows * heads.heads * shape.parts * kAttentionPart,
      .scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim)),
      .planes = planes,
      .next = from.o.matrix.data,
      .next_bytes = device_bytes(from.o.matrix)};
  attend(attention, stream_);
  const Forms forms({&from.o});
  const std::int64_t begin = split_.queries(device_).begin;
  combine_parts(attention,
                {.values = forms.values ? attended_.values + begin : nullptr,
                 .rows = shape.rows,
                 .count = queries,
                 .stride = attended_.stride,
                 .whole = from.o.matrix.inputs},
                forms.quantized ? attended_.quantized + quantized_row_bytes(begin) : nullptr,
                stream_);
}

void DevicePart::output(const PassShape& shape, const DeviceLayer& from) {
  api_.use(device_);
  const Product sums[] = {
      product(from.o, hidden(), split_.hidden(device_).begin, hidden_stride_, true)};
  multiply_all(sums, attended_, shape.rows);
}

void DevicePart::gate(const PassShape& shape, const DeviceLayer& from) {
  const std::int64_t count = from.gate.matrix.outputs;
  if (count == 0) return;
  api_.use(device_);
  const std::int64_t begin = split_.inner(device_).begin;
  const Forms forms({&from.gate, &from.up});
  normalize(shape, from.mlp_norm, forms.values, forms.quantized);
  const Product both[] = {product(from.gate, gate_.values, begin, gate_.stride),
                          product(from.up, up_, begin, gate_.stride)};
  multiply_all(both, normed_, shape.rows);
  silu_and_quantize(
      {.values = gate_.values + begin,
       .rows = shape.rows,
       .count = count,
       .stride = gate_.stride,
       .whole = from.down.matrix.inputs},
      up_ + begin, is_quantized(from.down) ? gate_.quantized + quantized_row_bytes(begin) : nullptr,
      stream_);
}

void DevicePart::down(const PassShape& shape, const DeviceLayer& from) {
  api_.use(device_);
  const Product sums[] = {
      product(from.down, hidden(), split_.hidden(device_).begin, hidden_stride_, true)};
  multiply_all(sums, gate_, shape.rows);
}

void DevicePart::head(const PassShape& shape, const DeviceLinear& from) {
  if (logits_share().count() == 0) return;
  api_.use(device_);
  const Forms forms({&from});
  norm_and_quantize({.values = hidden(),
                     .rows = shape.wanted,
                     .count = config_.hidden_size,
                     .stride = hidden_stride_,
                     .from = input_->on_device(device_, shape).wanted},
                    weights_.final_norm, static_cast<float>(config_.rms_norm_eps),
                    forms.values ? normed_.values : nullptr,
                    forms.quantized ? normed_.quantized : nullptr, stream_);
  const Product last[] = {product(from, logits_, 0, logits_stride_)};
  multiply_all(last, normed_, shape.wanted);
}

// Matrices of one kind are one launch; a device may have none of their outputs.
void DevicePart::multiply_all(std::span<const Product> products, const Activations& x,
                              std::int64_t rows) {
  const MatmulInput input{rows, x.stride, x.values, x.quantized};
  for (std::size_t begin = 0; begin < products.size();) {
    std::size_t end = begin + 1;
    while (end < products.size() && is_one_launch(products[begin], products[end])) ++end;
    if (products[begin].weights.outputs > 0) {
      multiply(products.data() + begin, static_cast<int>(end - begin), input, stream_);
    }
    begin = end;
  }
}

Columns DevicePart::hidden_columns() const {
  const Share share = split_.hidden(device_);
  return {reinterpret_cast<std::byte*>(hidden()), hidden_stride_ * 4, share.begin * 4,
          share.count() * 4};
}

Columns DevicePart::attended_columns(std::size_t index) const {
  return columns_of(attended_, split_.queries(device_), layer(index).o);
}

Columns DevicePart::gate_columns(std::size_t index) const {
  return columns_of(gate_, split_.inner(device_), layer(index).down);
}

Columns DevicePart::columns_of(const Activations& rows, const Share& share,
                               const DeviceLinear& reader) {
  if (is_quantized(reader)) {
    const std::int64_t begin = quantized_row_bytes(share.begin);
    return {rows.quantized, quantized_row_bytes(rows.count), begin,
            quantized_row_bytes(share.end) - begin};
  }
  return {reinterpret_cast<std::byte*>(rows.values), rows.stride * 4, share.begin * 4,
          share.count() * 4};
}

}  // namespace outrider::cuda
