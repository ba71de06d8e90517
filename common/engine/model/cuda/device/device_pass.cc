// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/device_pass.h"

#include <algorithm>
#include <set>

#include "common/engine/sampling/select.h"

namespace outrider::cuda {
namespace {

constexpr std::size_t kMaxGraphs = 64;
// A pass's memory comes out of a streamed model's budget. So many inputs of so many rows bound the
// rows that go through a layer together, and change nothing else.
constexpr PassBounds kStreamedBounds{.rows = 64, .scratch_floats = std::int64_t{16} << 20};
constexpr std::size_t kStreamedInputs = 16;

// layers: DeviceLayer or CpuLayer.
template <class Layer>
std::vector<std::int64_t> windows_of(const std::vector<Layer>& layers) {
  std::set<std::int64_t> windows;
  for (const Layer& layer : layers) windows.insert(layer.window);
  return {windows.begin(), windows.end()};
}

}  // namespace

Result<std::unique_ptr<DevicePass>> DevicePass::make(DeviceApi& api, const DeviceWeights& weights,
                                                     const DeviceKvMemory& kv, ThreadPool& threads,
                                                     Position max_positions, LayerFeed* feed) {
  const std::int64_t rows = feed == nullptr ? PassBounds{}.rows : kStreamedBounds.rows;
  std::vector<PassInput> inputs;
  while (inputs.size() < (feed == nullptr ? 1 : kStreamedInputs)) {
    OUTRIDER_ASSIGN_OR_RETURN(
        PassInput input,
        PassInput::make(api, weights.about(), windows_of(weights.on_device(0).layers), rows));
    inputs.push_back(std::move(input));
  }
  std::unique_ptr<DevicePass> pass(new DevicePass(api, weights, threads, std::move(inputs), feed));
  OUTRIDER_RETURN_IF_ERROR(pass->add_parts(weights, kv, max_positions));
  return pass;
}

DevicePass::DevicePass(DeviceApi& api, const DeviceWeights& weights, ThreadPool& threads,
                       std::vector<PassInput> inputs, LayerFeed* feed)
    : api_(api),
      weights_(weights),
      config_(weights.about().files->config),
      threads_(threads),
      feed_(feed),
      bounds_(feed == nullptr ? PassBounds{} : kStreamedBounds),
      inputs_(std::move(inputs)),
      side_(api.new_stream()),
      done_(api.new_event()),
      joined_(api.new_event()),
      hidden_stride_(pad_to_lanes(config_.hidden_size)) {}

Status DevicePass::add_parts(const DeviceWeights& weights, const DeviceKvMemory& kv,
                             Position max_positions) {
  for (int device = 0; device < api_.devices(); ++device) {
    OUTRIDER_ASSIGN_OR_RETURN(DevicePart part, DevicePart::make(api_, weights, kv, inputs_.front(),
                                                                device, bounds_, max_positions));
    parts_.push_back(std::move(part));
  }
  const std::int64_t found = bounds_.rows * static_cast<std::int64_t>(sizeof(FoundChoice));
  const std::int64_t logits = bounds_.rows * config_.head_size() * 4;
  OUTRIDER_ASSIGN_OR_RETURN(found_, DeviceMemory::make(api_, MemoryKind::kDevice, found));
  OUTRIDER_ASSIGN_OR_RETURN(host_found_, DeviceMemory::make(api_, MemoryKind::kHost, found));
  OUTRIDER_ASSIGN_OR_RETURN(host_logits_, DeviceMemory::make(api_, MemoryKind::kHost, logits));
  return {};
}

std::int64_t DevicePass::streamed_bytes(const CpuWeights& weights) {
  const ModelConfig& config = weights.files->config;
  const std::int64_t rows = kStreamedBounds.rows;
  const std::int64_t input = PassInput::memory_bytes(config, std::ssize(windows_of(weights.layers)),
                                                     rows, config.max_positions);
  const std::int64_t result =
      2 * static_cast<std::int64_t>(sizeof(FoundChoice)) + std::int64_t{config.head_size()} * 4;
  return static_cast<std::int64_t>(kStreamedInputs) * input + rows * result +
         DevicePart::memory_bytes(config, kStreamedBounds, config.max_positions);
}

std::int64_t DevicePass::max_rows(Position positions) const {
  return part_rows(positions) * std::ssize(inputs_);
}

// Most rows that are computed together.
std::int64_t DevicePass::part_rows(Position positions) const {
  std::int64_t most = bounds_.rows;
  for (const DevicePart& part : parts_) most = std::min(most, part.max_rows(positions));
  return most;
}

// Graphs that were recorded before compute no heads.
Status DevicePass::take_heads(const LayerHeads& heads) {
  OUTRIDER_ASSIGN_OR_RETURN(heads_,
                            DeviceHeads::make(api_, heads, config_.hidden_size, bounds_.rows));
  for (const auto& [key, kept] : graphs_) api_.destroy(kept.graph);
  graphs_.clear();
  return {};
}

std::size_t DevicePass::add_level(const ElasticLevel& level) {
  levels_.push_back(weights_.of_level(level));
  return levels_.size();
}

Status DevicePass::run(std::span<const Row> rows, std::size_t first, PassOutput& out, float* logits,
                       std::size_t level) {
  if (out.is_abandoned()) return cancelled("the pass was abandoned");
  if (feed_ != nullptr) return run_streamed(rows, first, out, logits);
  OUTRIDER_ASSIGN_OR_RETURN(const GraphKey key, prepare(rows, out, level));
  OUTRIDER_ASSIGN_OR_RETURN(const Graph graph, find_graph(key));
  upload();
  api_.launch(graph, main());
  api_.signal(done_, main());
  const Status shown = show(key, rows, first, out);
  OUTRIDER_RETURN_IF_ERROR(api_.synchronize(done_));
  OUTRIDER_RETURN_IF_ERROR(shown);
  if (out.is_abandoned()) return cancelled("the pass was abandoned");
  return take_results(rows, first, out, logits);
}

Result<DevicePass::GraphKey> DevicePass::prepare(std::span<const Row> rows, const PassOutput& out,
                                                 std::size_t level) {
  OUTRIDER_ASSIGN_OR_RETURN(const PassShape shape, input().prepare(rows));
  GraphKey key{shape, {}, level};
  for (std::int32_t layer = 1; out.tap != nullptr && layer < config_.num_layers; ++layer) {
    if (shape.wanted > 0 && out.tap->wants(layer)) key.taps.push_back(layer);
  }
  return key;
}

// The graph begins behind the uploads to all devices, and behind copies of keys and values.
void DevicePass::upload() {
  for (int device = 0; device < api_.devices(); ++device) {
    input().upload(device, parts_[static_cast<std::size_t>(device)].stream());
  }
  join_main();
}

// The work in the other devices' streams comes before the next work of the first one's.
void DevicePass::join_main() {
  for (const DevicePart& part : std::span(parts_).subspan(1)) {
    api_.record(part.ready(), part.stream());
    api_.wait(main(), part.ready());
  }
}

// The device chooses no token of a row that has none above -infinity: its logits tell the caller.
Status DevicePass::take_results(std::span<const Row> rows, std::size_t first, PassOutput& out,
                                float* logits) {
  const std::int64_t width = config_.head_size();
  const auto* const found = host_found_.as<const FoundChoice>();
  bool missing = false;
  std::int64_t wanted = 0;
  for (const Row& row : rows) {
    if (!row.wants_logits) continue;
    if (row.choice == nullptr || out.chosen.empty()) {
      std::copy_n(host_logits_.as<float>() + wanted * width, width, logits + wanted * width);
    } else {
      const SelectKey best = found[wanted].best;
      const TokenId token = best == 0 ? PassOutput::kNotChosen : token_of(best);
      out.chosen[first + static_cast<std::size_t>(wanted)] = token;
      if (token == PassOutput::kNotChosen) {
        api_.download(logits + wanted * width,
                      reinterpret_cast<const std::byte*>(parts_.front().logits() + wanted * width),
                      width * 4, main());
        missing = true;
      }
    }
    ++wanted;
  }
  if (!missing) return {};
  api_.signal(done_, main());
  return api_.synchronize(done_);
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
  api_.use(0);  // before the graph: see use_gpu()
  api_.begin_graph(main());
  if (parts_.size() > 1) api_.record(parts_.front().ready(), main());
  for (const DevicePart& part : std::span(parts_).subspan(1)) {
    api_.wait(part.stream(), parts_.front().ready());
  }
  for (std::int32_t i = 0; i < config_.num_layers; ++i) {
    if (std::ranges::binary_search(key.taps, i)) record_shown(key, i);
    record_layer(key, static_cast<std::size_t>(i));
  }
  if (key.shape.wanted > 0) {
    for (int device = 0; device < api_.devices(); ++device) {
      parts_[static_cast<std::size_t>(device)].head(key.shape, weights_.on_device(device).head);
    }
  }
  join_main();
  record_results(key.shape);
  if (!key.taps.empty()) {
    api_.record(joined_, side_);
    api_.wait(main(), joined_);
  }
  return api_.end_graph(main());
}

Status DevicePass::add_shown(std::int32_t layer) {
  Shown& shown = shown_[layer];
  if (shown.copied != nullptr) return {};
  const std::int64_t bytes = bounds_.rows * hidden_stride_ * 4;
  OUTRIDER_ASSIGN_OR_RETURN(shown.device, DeviceMemory::make(api_, MemoryKind::kDevice, bytes));
  OUTRIDER_ASSIGN_OR_RETURN(shown.host, DeviceMemory::make(api_, MemoryKind::kHost, bytes));
  shown.fork = api_.new_event();
  shown.copied = api_.new_event();
  return {};
}

// A copy on the device, since the layer changes the residual stream; the way to the host is beside
// it. A kernel makes the copy, so that the next one may begin beside it.
void DevicePass::record_shown(const GraphKey& key, std::int32_t layer) {
  api_.use(0);
  const Shown& shown = shown_.at(layer);
  const std::int64_t wanted = key.shape.wanted;
  const DeviceInput in = input().on_device(0, key.shape);
  norm_and_quantize({in.hidden, wanted, config_.hidden_size, hidden_stride_, in.wanted}, nullptr,
                    0.0f, shown.device.as<float>(), nullptr, main());
  api_.record(shown.fork, main());
  api_.wait(side_, shown.fork);
  api_.download(shown.host.data(), shown.device.data(), wanted * hidden_stride_ * 4, side_);
  if (heads_ != nullptr && heads_->computes(layer, wanted)) {
    heads_->record(layer, shown.device.as<float>(), wanted, side_);
  }
  api_.signal(shown.copied, side_);
}

void DevicePass::record_layer(const GraphKey& key, std::size_t layer) {
  const PassShape& shape = key.shape;
  const auto each = [&](const auto& stage) {
    for (std::size_t device = 0; device < parts_.size(); ++device) {
      stage(parts_[device], layer_of(key, device, layer));
    }
  };
  const auto hidden = [](const DevicePart& part) { return part.hidden_columns(); };
  each([&](DevicePart& part, const DeviceLayer& from) { part.attention(shape, from, layer); });
  exchange(shape.rows, [=](const DevicePart& part) { return part.attended_columns(layer); });
  each([&](DevicePart& part, const DeviceLayer& from) { part.output(shape, from); });
  exchange(shape.rows, hidden);
  each([&](DevicePart& part, const DeviceLayer& from) { part.gate(shape, from); });
  exchange(shape.rows, [=](const DevicePart& part) { return part.gate_columns(layer); });
  each([&](DevicePart& part, const DeviceLayer& from) { part.down(shape, from); });
  exchange(shape.rows, hidden);
}

const DeviceLayer& DevicePass::layer_of(const GraphKey& key, std::size_t device,
                                        std::size_t layer) const {
  if (taken_ != nullptr) return *taken_;
  if (key.level > 0) return levels_[key.level - 1].layers[layer];
  return weights_.on_device(static_cast<int>(device)).layers[layer];
}

// Each device gets the columns of every other one. It writes its own again only behind the next
// exchange, for which all wait; until then the copies of them are made.
template <class ColumnsOf>
void DevicePass::exchange(std::int64_t rows, const ColumnsOf& columns_of) {
  if (parts_.size() == 1) return;
  for (const DevicePart& part : parts_) api_.record(part.ready(), part.stream());
  for (const DevicePart& to : parts_) {
    for (const DevicePart& from : parts_) {
      if (&from == &to) continue;
      api_.wait(to.stream(), from.ready());
      const Columns source = columns_of(from), target = columns_of(to);
      if (source.bytes == 0) continue;
      api_.copy(target.rows + source.begin, target.pitch, source.rows + source.begin, source.pitch,
                source.bytes, rows, to.stream());
    }
  }
}

void DevicePass::record_results(const PassShape& shape) {
  const DevicePart& first = parts_.front();
  for (const DevicePart& part : std::span(parts_).subspan(1)) {
    const Share share = part.logits_share();
    if (share.count() == 0 || shape.wanted == 0) continue;
    api_.copy(reinterpret_cast<std::byte*>(first.logits() + share.begin), first.logits_stride() * 4,
              reinterpret_cast<const std::byte*>(part.logits()), part.logits_stride() * 4,
              share.count() * 4, shape.wanted, main());
  }
  if (shape.chooses) {
    api_.use(0);
    const std::int64_t bytes = shape.wanted * static_cast<std::int64_t>(sizeof(FoundChoice));
    api_.fill_zero(found_.data(), bytes, main());
    choose_tokens({.logits = first.logits(),
                   .stride = first.logits_stride(),
                   .rows = input().on_device(0, shape).choices,
                   .found = found_.as<FoundChoice>(),
                   .tokens = config_.vocab_size},
                  shape.wanted, shape.filters, main());
    api_.download(host_found_.data(), found_.data(), bytes, main());
  }
  if (shape.gives_logits) {
    api_.download(host_logits_.data(), reinterpret_cast<const std::byte*>(first.logits()),
                  shape.wanted * config_.head_size() * 4, main());
  }
}

// Waits for each copy in turn, while later layers run. What comes after the pass's own results
// would only delay them.
Status DevicePass::show(const GraphKey& key, std::span<const Row> rows, std::size_t first,
                        PassOutput& out) {
  for (const std::int32_t layer : key.taps) {
    OUTRIDER_RETURN_IF_ERROR(api_.synchronize(shown_.at(layer).copied));
    if (out.is_abandoned() || api_.is_done(done_)) break;
    show_layer(layer, key, rows, first, out);
  }
  return {};
}

// The copy is there.
void DevicePass::show_layer(std::int32_t layer, const GraphKey& key, std::span<const Row> rows,
                            std::size_t first, PassOutput& out) {
  const auto wanted = std::ranges::count_if(rows, [](const Row& row) { return row.wants_logits; });
  gathered_.clear();
  const float* from = shown_.at(layer).host.as<float>();
  for (std::int64_t r = 0; r < wanted; ++r, from += hidden_stride_) {
    gathered_.insert(gathered_.end(), from, from + config_.hidden_size);
  }
  const auto width = static_cast<std::size_t>(config_.hidden_size);
  HiddenRows hidden{.layer = layer,
                    .first = first,
                    .count = gathered_.size() / width,
                    .width = width,
                    .values = gathered_.data(),
                    .threads = &threads_};
  if (heads_ != nullptr && heads_->computes(layer, key.shape.wanted)) {
    hidden.head_logits = heads_->logits(layer);
    hidden.num_head_logits = static_cast<std::size_t>(heads_->tokens(layer));
  }
  out.tap->on_layer(hidden);
}

}  // namespace outrider::cuda
