// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/pass_input.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "common/engine/model/cpu/rotation.h"
#include "common/engine/sampling/sampling.h"

namespace outrider::cuda {
namespace {

constexpr std::int64_t kListBytes = 1 << 18;  // at first

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + 15) / 16 * 16;
}

}  // namespace

std::int64_t fill_up(std::int64_t count, std::int64_t most) {
  const std::int64_t step = count <= 8 ? 1 : count <= 64 ? 8 : count <= 256 ? 32 : 128;
  return std::min((count + step - 1) / step * step, most);
}

PassInput::PassInput(DeviceApi& api, const CpuWeights& weights, std::vector<std::int64_t> windows,
                     std::int64_t max_rows)
    : api_(api),
      weights_(weights),
      config_(weights.files->config),
      windows_(std::move(windows)),
      max_rows_(max_rows),
      hidden_stride_(pad_to_lanes(config_.hidden_size)),
      half_(config_.head_dim / 2),
      shared_(config_.num_heads / config_.num_kv_heads),
      frequencies_(rope_frequencies(config_.rope, config_.head_dim)) {}

Result<PassInput> PassInput::make(DeviceApi& api, const CpuWeights& weights,
                                  std::vector<std::int64_t> windows, std::int64_t max_rows) {
  PassInput input(api, weights, std::move(windows), max_rows);
  const PassShape largest = largest_shape(input.config_, max_rows);
  const std::int64_t bytes = input.layout(largest).end;
  const std::int64_t others = (api.devices() - 1) * input.seen_bytes(largest);
  OUTRIDER_ASSIGN_OR_RETURN(input.host_,
                            DeviceMemory::make(api, MemoryKind::kHost, bytes + others));
  for (int device = 0; device < api.devices(); ++device) {
    OUTRIDER_ASSIGN_OR_RETURN(DeviceMemory memory,
                              DeviceMemory::make(api, MemoryKind::kDevice, bytes, device));
    input.devices_.push_back(std::move(memory));
  }
  OUTRIDER_RETURN_IF_ERROR(input.grow_lists());
  return input;
}

PassShape PassInput::largest_shape(const ModelConfig& config, std::int64_t max_rows) {
  const std::int64_t shared = config.num_heads / config.num_kv_heads;
  return {max_rows, max_rows, max_rows * ((shared + kMaxBundle - 1) / kMaxBundle), 1};
}

std::int64_t PassInput::memory_bytes(const ModelConfig& config, std::int64_t windows,
                                     std::int64_t max_rows, Position max_positions) {
  const std::int64_t slots = std::int64_t{max_positions} + max_rows;
  return 2 * (layout_of(config, windows, largest_shape(config, max_rows)).end +
              std::max(kListBytes, 2 * 4 * slots));
}

PassInput::Layout PassInput::layout_of(const ModelConfig& config, std::int64_t windows,
                                       const PassShape& shape) {
  const std::int64_t half = config.head_dim / 2;
  Layout to{};
  to.cos = aligned(shape.rows * pad_to_lanes(config.hidden_size) * 4);
  to.sin = to.cos + aligned(shape.rows * half * 4);
  to.slots = to.sin + aligned(shape.rows * half * 4);
  to.wanted = to.slots + aligned(shape.rows * 4);
  to.choices = to.wanted + aligned(shape.wanted * 4);
  to.bundles = to.choices + aligned(shape.wanted * static_cast<std::int64_t>(sizeof(RowChoice)));
  to.seen = to.bundles + aligned(shape.bundles * static_cast<std::int64_t>(sizeof(Bundle)));
  to.end = to.seen + windows * shape.rows * static_cast<std::int64_t>(sizeof(SeenRow));
  return to;
}

std::int64_t PassInput::seen_bytes(const PassShape& shape) const {
  return std::ssize(windows_) * shape.rows * static_cast<std::int64_t>(sizeof(SeenRow));
}

DeviceInput PassInput::on_device(int device, const PassShape& shape) const {
  const Layout from = layout(shape);
  std::byte* const data = devices_[size(device)].data();
  return {.hidden = reinterpret_cast<float*>(data),
          .cos = reinterpret_cast<const float*>(data + from.cos),
          .sin = reinterpret_cast<const float*>(data + from.sin),
          .slots = reinterpret_cast<const std::int32_t*>(data + from.slots),
          .wanted = reinterpret_cast<const std::int32_t*>(data + from.wanted),
          .choices = reinterpret_cast<const RowChoice*>(data + from.choices),
          .bundles = reinterpret_cast<const Bundle*>(data + from.bundles),
          .seen = reinterpret_cast<const SeenRow*>(data + from.seen)};
}

std::int64_t PassInput::window_index(std::int64_t window) const {
  return std::find(windows_.begin(), windows_.end(), window) - windows_.begin();
}

Result<PassShape> PassInput::prepare(std::span<const Row> rows) {
  paths_.clear();
  slots_.clear();
  wanted_.clear();
  choices_.clear();
  lists_.clear();
  bundles_.clear();
  shape_ = {};
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin + 1;
    while (end < rows.size() && rows[end].cache == rows[begin].cache) ++end;
    add_sequence(rows.subspan(begin, end - begin));
    begin = end;
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].wants_logits) continue;
    wanted_.push_back(static_cast<std::int32_t>(r));
    add_choice(rows[r]);
  }
  shape_.rows = fill_up(std::ssize(rows), max_rows_);
  fill_up_rows(shape_.rows);
  shape_.wanted = fill_up(std::ssize(wanted_), shape_.rows);
  wanted_.resize(size(shape_.wanted), 0);
  choices_.resize(size(shape_.wanted));
  const auto last = static_cast<std::int32_t>(shape_.rows - 1);
  const auto most = shape_.rows * ((shared_ + kMaxBundle - 1) / kMaxBundle);
  shape_.bundles = fill_up(std::ssize(bundles_), most);
  bundles_.resize(size(shape_.bundles), {last * static_cast<std::int32_t>(shared_), 1, last});
  std::int32_t longest = 1;
  for (const Path& path : paths_) longest = std::max(longest, path.length);
  const auto parts = (static_cast<std::uint64_t>(longest) + kAttentionPart - 1) / kAttentionPart;
  shape_.parts = static_cast<std::int64_t>(std::bit_ceil(parts));
  OUTRIDER_RETURN_IF_ERROR(grow_lists());
  OUTRIDER_RETURN_IF_ERROR(write_rows(rows));
  write_seen();
  return shape_;
}

// Rows of one sequence that stand together. Their common list is the path of the first, longer as
// long as rows follow at its end: a whole prompt is one list.
void PassInput::add_sequence(std::span<const Row> rows) {
  const auto& pages = static_cast<const DeviceKvPages&>(rows.front().cache->pages());
  const std::size_t first = paths_.size();
  own_.clear();
  rows.front().cache->slots().path(rows.front().slot, chain_);
  for (KvCell& cell : chain_) cell = pages.in_memory(cell);
  for (const Row& row : rows) add_path(row);
  const std::size_t common = lists_.size();
  lists_.insert(lists_.end(), chain_.begin(), chain_.end());
  for (std::size_t r = first; r < paths_.size(); ++r) {
    paths_[r].common = common;
    paths_[r].own += lists_.size();
  }
  lists_.insert(lists_.end(), own_.begin(), own_.end());
  add_bundles(static_cast<std::int64_t>(first), std::ssize(paths_));
}

void PassInput::add_path(const Row& row) {
  const auto& pages = static_cast<const DeviceKvPages&>(row.cache->pages());
  row.cache->slots().path(row.slot, path_);
  for (KvCell& cell : path_) cell = pages.in_memory(cell);
  const bool goes_on =
      path_.size() == chain_.size() + 1 && path_[chain_.size() - 1] == chain_.back();
  if (goes_on) chain_.push_back(path_.back());
  const auto committed = static_cast<std::ptrdiff_t>(row.cache->slots().committed());
  const auto shorter = static_cast<std::ptrdiff_t>(std::min(path_.size(), chain_.size()));
  const auto [end, other] =
      std::mismatch(path_.begin() + committed, path_.begin() + shorter, chain_.begin() + committed);
  slots_.push_back(path_.back());
  paths_.push_back({.own = own_.size(),
                    .num_common = static_cast<std::int32_t>(end - path_.begin()),
                    .length = static_cast<std::int32_t>(path_.size())});
  own_.insert(own_.end(), end, path_.end());
}

void PassInput::add_bundles(std::int64_t first_row, std::int64_t end_row) {
  const std::int64_t end = end_row * shared_;
  for (std::int64_t pair = first_row * shared_; pair < end; pair += kMaxBundle) {
    const std::int64_t count = std::min<std::int64_t>(kMaxBundle, end - pair);
    std::int64_t lead = pair / shared_;
    for (std::int64_t row = lead; row <= (pair + count - 1) / shared_; ++row) {
      if (paths_[size(row)].length > paths_[size(lead)].length) lead = row;
    }
    bundles_.push_back({static_cast<std::int32_t>(pair), static_cast<std::int32_t>(count),
                        static_cast<std::int32_t>(lead)});
  }
}

void PassInput::add_choice(const Row& row) {
  RowChoice& choice = choices_.emplace_back();
  if (row.choice == nullptr || !can_choose()) {
    shape_.gives_logits = true;
    return;
  }
  const SamplingParams& params = row.choice->sampling;
  choice = {.seed = row.choice->seed,
            .position = row.cache->slots().position(row.slot) + 1,
            .temperature = params.temperature,
            .top_p = params.top_p,
            .min_p = params.min_p,
            .top_k = params.top_k,
            .is_wanted = 1};
  shape_.chooses = true;
  const bool filters = params.temperature > 0 && (params.top_k > 0 || params.top_p < 1);
  shape_.filters = shape_.filters || filters;
}

// Further rows are equal to each other, so it does not matter that they write one slot together.
void PassInput::fill_up_rows(std::int64_t rows) {
  const std::size_t list = lists_.size();
  lists_.push_back(DeviceKvMemory::kSpareCell);
  for (std::int64_t row = std::ssize(paths_); row < rows; ++row) {
    slots_.push_back(DeviceKvMemory::kSpareCell);
    paths_.push_back({.common = list, .own = list, .num_common = 1, .length = 1});
    add_bundles(row, row + 1);
  }
}

Status PassInput::write_rows(std::span<const Row> rows) {
  const Layout to = layout(shape_);
  auto* hidden = on_host<float>(0);
  auto* cos = on_host<float>(to.cos);
  auto* sin = on_host<float>(to.sin);
  for (std::size_t r = 0; r < size(shape_.rows); ++r) {
    const TokenId token = r < rows.size() ? rows[r].token : 0;
    OUTRIDER_RETURN_IF_ERROR(weights_.files->weights.read_row(weights_.embedding, token,
                                                              {hidden, size(config_.hidden_size)}));
    std::fill(hidden + config_.hidden_size, hidden + hidden_stride_, 0.0f);
    hidden += hidden_stride_;
    fill_rotation(frequencies_, 1, paths_[r].length - 1, cos, sin);
    cos += half_;
    sin += half_;
  }
  std::copy(slots_.begin(), slots_.end(), on_host<std::int32_t>(to.slots));
  std::copy(wanted_.begin(), wanted_.end(), on_host<std::int32_t>(to.wanted));
  std::copy(choices_.begin(), choices_.end(), on_host<RowChoice>(to.choices));
  std::copy(bundles_.begin(), bundles_.end(), on_host<Bundle>(to.bundles));
  return {};
}

void PassInput::write_seen() {
  auto* to = on_host<SeenRow>(layout(shape_).seen);
  for (const DeviceMemory& on_device : device_lists_) {
    const auto* lists = on_device.as<std::int32_t>();
    for (const std::int64_t window : windows_) {
      for (const Path& path : paths_) {
        const std::int64_t begin = window > 0 ? std::max<std::int64_t>(path.length - window, 0) : 0;
        const bool is_common = path.num_common == path.length;
        *to++ = {lists + path.common, is_common ? nullptr : lists + path.own, path.num_common,
                 static_cast<std::int32_t>(begin), path.length};
      }
    }
  }
  std::copy(lists_.begin(), lists_.end(), host_lists_.as<std::int32_t>());
}

// Room for lists_, and for a spare slot at first.
Status PassInput::grow_lists() {
  const std::int64_t needed = std::ssize(lists_) * 4;
  if (host_lists_.data() != nullptr && needed <= host_lists_.bytes()) return {};
  const std::int64_t bytes = std::max(kListBytes, 2 * needed);
  std::vector<DeviceMemory> on_devices;  // all or none: after an error passes use the old ones
  for (int device = 0; device < api_.devices(); ++device) {
    OUTRIDER_ASSIGN_OR_RETURN(DeviceMemory memory,
                              DeviceMemory::make(api_, MemoryKind::kDevice, bytes, device));
    on_devices.push_back(std::move(memory));
  }
  OUTRIDER_ASSIGN_OR_RETURN(host_lists_, DeviceMemory::make(api_, MemoryKind::kHost, bytes));
  device_lists_ = std::move(on_devices);
  return {};
}

// The first device's SeenRows lie behind the other inputs, those of the others behind them.
void PassInput::upload(int device, Stream stream) {
  const Layout from = layout(shape_);
  std::byte* const to = devices_[size(device)].data();
  const std::int64_t seen = seen_bytes(shape_);
  api_.upload(to, host_.data(), device == 0 ? from.end : from.seen, stream);
  if (device > 0)
    api_.upload(to + from.seen, host_.data() + from.end + (device - 1) * seen, seen, stream);
  api_.upload(device_lists_[size(device)].data(), host_lists_.data(), std::ssize(lists_) * 4,
              stream);
}

}  // namespace outrider::cuda
