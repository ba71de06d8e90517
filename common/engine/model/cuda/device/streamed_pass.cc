// The passes of a model whose layers come from a feed. SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/engine/model/cuda/device/device_pass.h"
#include "common/engine/model/row_check.h"

namespace outrider::cuda {

Status DevicePass::run_streamed(std::span<const Row> rows, std::size_t first, PassOutput& out,
                                float* logits) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<StreamedPart> parts, prepare_parts(rows, first, out));
  Status done = stream_layers(parts, out);
  if (done.ok()) done = stream_results(parts, first, out, logits);
  // Also after an error: what was put reads memory that the next pass writes.
  const Status finished = finish(), ended = feed_->end_pass();
  taken_ = nullptr;
  OUTRIDER_RETURN_IF_ERROR(done);
  OUTRIDER_RETURN_IF_ERROR(finished);
  return ended;
}

// Parts are full except the first one, and no more than there are inputs. Puts their uploads.
Result<std::vector<DevicePass::StreamedPart>> DevicePass::prepare_parts(std::span<const Row> rows,
                                                                        std::size_t first,
                                                                        const PassOutput& out) {
  Position longest = 0;
  for (const Row& row : rows) {
    longest = std::max(longest, row.cache->slots().position(row.slot) + 1);
  }
  const auto most = static_cast<std::size_t>(part_rows(longest));
  std::vector<StreamedPart> parts;
  for (std::size_t begin = 0; begin < rows.size();) {
    StreamedPart& part = parts.emplace_back();
    part.rows = rows.subspan(begin, begin == 0 ? first_part(rows.size(), most) : most);
    part.first = first;
    use_input(parts.size() - 1);
    OUTRIDER_ASSIGN_OR_RETURN(part.key, prepare(part.rows, out, 0));
    for (const std::int32_t layer : part.key.taps) OUTRIDER_RETURN_IF_ERROR(add_shown(layer));
    begin += part.rows.size();
    first += static_cast<std::size_t>(std::ranges::count_if(part.rows, &Row::wants_logits));
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    use_input(i);
    upload();
  }
  return parts;
}

void DevicePass::use_input(std::size_t number) {
  input_ = number;
  for (DevicePart& part : parts_) part.use(input());
}

// Parents come before the rows that see them, so earlier parts do not need later ones. While the
// host waits for the disk, the device computes what was put before.
Status DevicePass::stream_layers(std::span<const StreamedPart> parts, PassOutput& out) {
  for (std::int32_t layer = 0; layer < config_.num_layers; ++layer) {
    if (out.is_abandoned()) return cancelled("the pass was abandoned");
    OUTRIDER_ASSIGN_OR_RETURN(taken_, feed_->take(layer, main()));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const StreamedPart& part = parts[i];
      use_input(i);
      const bool shows = std::ranges::binary_search(part.key.taps, layer);
      if (shows) record_shown(part.key, layer);
      record_layer(part.key, static_cast<std::size_t>(layer));
      if (!shows) continue;
      OUTRIDER_RETURN_IF_ERROR(api_.synchronize(shown_.at(layer).copied));
      if (!out.is_abandoned()) show_layer(layer, part.key, part.rows, part.first, out);
    }
    feed_->release(layer, main());
    if (out.on_layer_done) out.on_layer_done(layer + 1, config_.num_layers);
  }
  return {};
}

// One part after the other, as all have the same memory for their results.
Status DevicePass::stream_results(std::span<const StreamedPart> parts, std::size_t first,
                                  PassOutput& out, float* logits) {
  OUTRIDER_ASSIGN_OR_RETURN(const DeviceLinear* head, feed_->take_head());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const StreamedPart& part = parts[i];
    if (part.key.shape.wanted == 0) continue;
    use_input(i);
    parts_.front().head(part.key.shape, *head);
    record_results(part.key.shape);
    OUTRIDER_RETURN_IF_ERROR(finish());
    if (out.is_abandoned()) break;
    float* const to = logits + static_cast<std::int64_t>(part.first - first) * config_.head_size();
    OUTRIDER_RETURN_IF_ERROR(take_results(part.rows, part.first, out, to));
  }
  if (out.is_abandoned()) return cancelled("the pass was abandoned");
  return {};
}

// The device has done all work of the pass.
Status DevicePass::finish() {
  api_.signal(done_, main());
  return api_.synchronize(done_);
}

}  // namespace outrider::cuda
