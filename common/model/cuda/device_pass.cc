// SPDX-License-Identifier: Apache-2.0
#include "common/model/cuda/device_pass.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <string>

#include "common/model/cpu/kernels/weight_memory.h"
#include "common/model/cuda/lane_panels.h"

namespace outrider::cuda {
namespace {

constexpr std::size_t kMaxGraphs = 64;
// Of attention: longer contexts are computed with fewer rows at a time.
constexpr std::int64_t kMaxScratchFloats = std::int64_t{64} << 20;

std::int64_t parts_of(Position positions) {
  const auto parts = (static_cast<std::uint64_t>(positions) + kAttentionPart - 1) / kAttentionPart;
  return static_cast<std::int64_t>(std::bit_ceil(std::max<std::uint64_t>(parts, 1)));
}

std::vector<std::int64_t> windows_of(const DeviceWeights& weights) {
  std::set<std::int64_t> windows;
  for (const DeviceLayer& layer : weights.layers()) windows.insert(layer.window);
  return {windows.begin(), windows.end()};
}

bool is_quantized(const DeviceLinear& linear) {
  return linear.matrix.type == WeightType::kQuantized;
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

std::int64_t memory_bytes(const WeightMatrix& matrix) {
  return matrix.type == WeightType::kQuantized ? bytes_of(matrix) : lane_panel_bytes(matrix);
}

bool is_one_launch(const Product& a, const Product& b) {
  const WeightMatrix &x = a.weights, &y = b.weights;
  return x.type == y.type && x.inputs == y.inputs &&
         (x.type != WeightType::kQuantized || x.format == y.format);
}

}  // namespace

Result<std::unique_ptr<DevicePass>> DevicePass::make(DeviceApi& api, const DeviceWeights& weights,
                                                     const DeviceKvMemory& kv, ThreadPool& threads,
                                                     Position max_positions) {
  OUTRIDER_ASSIGN_OR_RETURN(
      PassInput input, PassInput::make(api, weights.about().files->config,
                                       weights.about().embedding, windows_of(weights), kMaxRows));
  std::unique_ptr<DevicePass> pass(new DevicePass(api, weights, kv, threads, std::move(input)));
  OUTRIDER_RETURN_IF_ERROR(pass->allocate(max_positions));
  return pass;
}

DevicePass::DevicePass(DeviceApi& api, const DeviceWeights& weights, const DeviceKvMemory& kv,
                       ThreadPool& threads, PassInput input)
    : api_(api),
      weights_(weights),
      config_(weights.about().files->config),
      kv_(kv),
      threads_(threads),
      input_(std::move(input)),
      main_(kv.stream()),
      side_(api.new_stream()),
      done_(api.new_event()),
      joined_(api.new_event()),
      hidden_stride_(pad_to_lanes(config_.hidden_size)),
      head_stride_(pad_to_lanes(config_.head_dim)) {}

Status DevicePass::allocate(Position max_positions) {
  const std::int64_t row =
      config_.num_heads * parts_of(max_positions) * (kAttentionPart + head_stride_ + kPartialExtra);
  scratch_floats_ = std::max(std::min(kMaxRows * row, kMaxScratchFloats), row);
  std::int64_t bytes = 0;
  std::vector<std::pair<float**, std::int64_t>> floats;
  std::vector<std::pair<std::byte**, std::int64_t>> rows;
  const auto activations = [&](Activations& x, std::int64_t count) {
    x.stride = pad_to_lanes(count);
    floats.emplace_back(&x.values, kMaxRows * x.stride);
    rows.emplace_back(&x.quantized, kMaxRows * quantized_row_bytes(count));
  };
  activations(normed_, config_.hidden_size);
  activations(attended_, config_.q_size());
  floats.emplace_back(&queries_, kMaxRows * config_.q_size());
  floats.emplace_back(&keys_, kMaxRows * config_.kv_size());
  floats.emplace_back(&values_, kMaxRows * config_.kv_size());
  floats.emplace_back(&rotated_, kMaxRows * config_.num_heads * head_stride_);
  floats.emplace_back(&scratch_, scratch_floats_);
  floats.emplace_back(&logits_, kMaxRows * config_.head_size());
  activations(gate_, config_.intermediate_size);
  floats.emplace_back(&up_, kMaxRows * gate_.stride);
  const auto aligned = [](std::int64_t count) { return (count + 255) / 256 * 256; };
  for (const auto& [to, count] : floats) bytes += aligned(count * 4);
  for (const auto& [to, count] : rows) bytes += aligned(count);
  OUTRIDER_ASSIGN_OR_RETURN(memory_, DeviceMemory::make(api_, MemoryKind::kDevice, bytes));
  std::byte* at = memory_.data();
  for (const auto& [to, count] : floats) {
    *to = reinterpret_cast<float*>(at);
    at += aligned(count * 4);
  }
  for (const auto& [to, count] : rows) {
    *to = at;
    at += aligned(count);
  }
  OUTRIDER_ASSIGN_OR_RETURN(host_logits_, DeviceMemory::make(api_, MemoryKind::kHost,
                                                             kMaxRows * config_.head_size() * 4));
  // Zeros behind their rows stay: products write what is before them.
  api_.fill_zero(reinterpret_cast<std::byte*>(gate_.values), kMaxRows * gate_.stride * 4, main_);
  api_.fill_zero(reinterpret_cast<std::byte*>(up_), kMaxRows * gate_.stride * 4, main_);
  api_.signal(done_, main_);
  return api_.synchronize(done_);
}

std::int64_t DevicePass::max_rows(Position positions) const {
  const std::int64_t row =
      config_.num_heads * parts_of(positions) * (kAttentionPart + head_stride_ + kPartialExtra);
  std::int64_t most = std::min(kMaxRows, std::max<std::int64_t>(scratch_floats_ / row, 1));
  while (fill_up(most, kMaxRows) > most) --most;  // filled up they fit too
  return most;
}

Status DevicePass::run(std::span<const Row> rows, std::size_t first, PassOutput& out,
                       float* logits) {
  if (out.is_abandoned()) return cancelled("the pass was abandoned");
  OUTRIDER_ASSIGN_OR_RETURN(const PassShape shape, input_.prepare(rows));
  GraphKey key{shape, {}};
  for (std::int32_t layer = 1; out.tap != nullptr && layer < config_.num_layers; ++layer) {
    if (shape.wanted > 0 && out.tap->wants(layer)) key.taps.push_back(layer);
  }
  OUTRIDER_ASSIGN_OR_RETURN(const Graph graph, find_graph(key));
  input_.upload(main_);
  api_.launch(graph, main_);
  api_.signal(done_, main_);
  const Status shown = show(key, rows, first, out);
  OUTRIDER_RETURN_IF_ERROR(api_.synchronize(done_));
  OUTRIDER_RETURN_IF_ERROR(shown);
  if (out.is_abandoned()) return cancelled("the pass was abandoned");
  const auto wanted = std::ranges::count_if(rows, [](const Row& row) { return row.wants_logits; });
  std::copy_n(host_logits_.as<float>(), wanted * config_.head_size(), logits);
  return {};
}

Result<Graph> DevicePass::find_graph(const GraphKey& key) {
  ++passes_;
  auto found = graphs_.find(key);
  if (found == graphs_.end()) {
    if (graphs_.size() == kMaxGraphs) {
      const auto oldest = std::ranges::min_element(
          graphs_, {}, [](const auto& kept) { return kept.second.last_pass; });
      api_.destroy(oldest->second.graph);
      graphs_.erase(oldest);
    }
    for (const std::int32_t layer : key.taps) OUTRIDER_RETURN_IF_ERROR(add_shown(layer));
    OUTRIDER_ASSIGN_OR_RETURN(const Graph graph, record(key));
    found = graphs_.emplace(key, KeptGraph{graph, 0}).first;
  }
  found->second.last_pass = passes_;
  return found->second.graph;
}

Result<Graph> DevicePass::record(const GraphKey& key) {
  api_.begin_graph(main_);
  for (std::int32_t i = 0; i < config_.num_layers; ++i) {
    if (std::ranges::binary_search(key.taps, i)) record_shown(key, i);
    record_layer(key.shape, weights_.layers()[static_cast<std::size_t>(i)], i);
  }
  if (key.shape.wanted > 0) record_head(key.shape);
  if (!key.taps.empty()) {
    api_.record(joined_, side_);
    api_.wait(main_, joined_);
  }
  return api_.end_graph(main_);
}

Status DevicePass::add_shown(std::int32_t layer) {
  Shown& shown = shown_[layer];
  if (shown.copied != nullptr) return {};
  const std::int64_t bytes = kMaxRows * hidden_stride_ * 4;
  OUTRIDER_ASSIGN_OR_RETURN(shown.device, DeviceMemory::make(api_, MemoryKind::kDevice, bytes));
  OUTRIDER_ASSIGN_OR_RETURN(shown.host, DeviceMemory::make(api_, MemoryKind::kHost, bytes));
  shown.fork = api_.new_event();
  shown.copied = api_.new_event();
  return {};
}

// A copy on the device, since the layer changes the residual stream; the way to the host is beside
// it. A kernel makes the copy, so that the next one may begin beside it.
void DevicePass::record_shown(const GraphKey& key, std::int32_t layer) {
  const Shown& shown = shown_.at(layer);
  const std::int64_t wanted = key.shape.wanted;
  norm_and_quantize(
      {input_.hidden(), wanted, config_.hidden_size, hidden_stride_, input_.wanted(key.shape)},
      nullptr, 0.0f, shown.device.as<float>(), nullptr, main_);
  api_.record(shown.fork, main_);
  api_.wait(side_, shown.fork);
  api_.download(shown.host.data(), shown.device.data(), wanted * hidden_stride_ * 4, side_);
  api_.signal(shown.copied, side_);
}

void DevicePass::record_layer(const PassShape& shape, const DeviceLayer& layer,
                              std::int64_t index) {
  const auto epsilon = static_cast<float>(config_.rms_norm_eps);
  const RowsOf hidden{input_.hidden(), shape.rows, config_.hidden_size, hidden_stride_};
  const auto normalize = [&](const float* weight, const Forms& forms) {
    norm_and_quantize(hidden, weight, epsilon, forms.values ? normed_.values : nullptr,
                      forms.quantized ? normed_.quantized : nullptr, main_);
  };
  const auto product = [](const DeviceLinear& linear, float* y, std::int64_t stride, bool add) {
    return Product{linear.matrix, {y, stride, linear.bias, add}};
  };
  normalize(layer.attention_norm, Forms({&layer.q, &layer.k, &layer.v}));
  const Product projections[] = {product(layer.q, queries_, config_.q_size(), false),
                                 product(layer.k, keys_, config_.kv_size(), false),
                                 product(layer.v, values_, config_.kv_size(), false)};
  multiply_all(projections, normed_, shape.rows);
  record_attention(shape, layer, index);
  const Product output[] = {product(layer.o, hidden.values, hidden_stride_, true)};
  multiply_all(output, attended_, shape.rows);
  normalize(layer.mlp_norm, Forms({&layer.gate, &layer.up}));
  const Product both[] = {product(layer.gate, gate_.values, gate_.stride, false),
                          product(layer.up, up_, gate_.stride, false)};
  multiply_all(both, normed_, shape.rows);
  silu_and_quantize({gate_.values, shape.rows, config_.intermediate_size, gate_.stride}, up_,
                    is_quantized(layer.down) ? gate_.quantized : nullptr, main_);
  const Product down[] = {product(layer.down, hidden.values, hidden_stride_, true)};
  multiply_all(down, gate_, shape.rows);
}

void DevicePass::record_attention(const PassShape& shape, const DeviceLayer& layer,
                                  std::int64_t index) {
  const Heads heads{config_.num_heads, config_.num_kv_heads, config_.head_dim};
  const KvPlanes planes = kv_.planes(index);
  place_heads({.rows = shape.rows,
               .shape = heads,
               .queries = queries_,
               .keys = keys_,
               .values = values_,
               .q_norm = layer.q_norm,
               .k_norm = layer.k_norm,
               .epsilon = static_cast<float>(config_.rms_norm_eps),
               .cos = input_.cos(shape),
               .sin = input_.sin(shape),
               .slots = input_.slots(shape),
               .rotated = rotated_,
               .planes = planes},
              main_);
  const Attention attention{
      .shape = heads,
      .queries = rotated_,
      .rows = input_.seen(shape, layer.window),
      .bundles = input_.bundles(shape),
      .num_rows = shape.rows,
      .num_bundles = shape.bundles,
      .parts = shape.parts,
      .scores = scratch_,
      .partials = scratch_ + shape.rows * heads.heads * shape.parts * kAttentionPart,
      .scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim)),
      .planes = planes,
      .next = layer.o.matrix.data,
      .next_bytes = memory_bytes(layer.o.matrix)};
  attend(attention, main_);
  const Forms forms({&layer.o});
  combine_parts(attention, forms.values ? attended_.values : nullptr, attended_.stride,
                forms.quantized ? attended_.quantized : nullptr, main_);
}

void DevicePass::record_head(const PassShape& shape) {
  const Forms forms({&weights_.head()});
  norm_and_quantize(
      {input_.hidden(), shape.wanted, config_.hidden_size, hidden_stride_, input_.wanted(shape)},
      weights_.final_norm(), static_cast<float>(config_.rms_norm_eps),
      forms.values ? normed_.values : nullptr, forms.quantized ? normed_.quantized : nullptr,
      main_);
  const Product head[] = {
      {weights_.head().matrix, {logits_, config_.head_size(), weights_.head().bias, false}}};
  multiply_all(head, normed_, shape.wanted);
  api_.download(host_logits_.data(), reinterpret_cast<const std::byte*>(logits_),
                shape.wanted * config_.head_size() * 4, main_);
}

// Matrices of one kind are one launch.
void DevicePass::multiply_all(std::span<const Product> products, const Activations& x,
                              std::int64_t rows) {
  const MatmulInput input{rows, x.stride, x.values, x.quantized};
  for (std::size_t begin = 0; begin < products.size();) {
    std::size_t end = begin + 1;
    while (end < products.size() && is_one_launch(products[begin], products[end])) ++end;
    multiply(products.data() + begin, static_cast<int>(end - begin), input, main_);
    begin = end;
  }
}

// Waits for each copy in turn, while later layers run.
Status DevicePass::show(const GraphKey& key, std::span<const Row> rows, std::size_t first,
                        PassOutput& out) {
  const auto wanted = std::ranges::count_if(rows, [](const Row& row) { return row.wants_logits; });
  for (const std::int32_t layer : key.taps) {
    const Shown& shown = shown_.at(layer);
    OUTRIDER_RETURN_IF_ERROR(api_.synchronize(shown.copied));
    if (out.is_abandoned()) break;
    gathered_.clear();
    const float* from = shown.host.as<float>();
    for (std::int64_t r = 0; r < wanted; ++r, from += hidden_stride_) {
      gathered_.insert(gathered_.end(), from, from + config_.hidden_size);
    }
    const auto width = static_cast<std::size_t>(config_.hidden_size);
    out.tap->on_layer({.layer = layer,
                       .first = first,
                       .count = gathered_.size() / width,
                       .width = width,
                       .values = gathered_.data(),
                       .threads = &threads_});
  }
  return {};
}

}  // namespace outrider::cuda
