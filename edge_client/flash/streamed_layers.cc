// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/streamed_layers.h"

#include <string>
#include <utility>

namespace outrider {

std::vector<StreamSection> sections_of(const ModelPack& pack) {
  std::vector<StreamSection> sections;
  const std::int64_t layers = pack.config().num_layers;
  for (std::int64_t i = 0; i <= layers; ++i) {
    sections.push_back(section_of(pack, pack.layer_extent(i),
                                  i < layers ? "layer " + std::to_string(i) : "the output matrix"));
  }
  return sections;
}

Result<std::unique_ptr<FlashLayers>> StreamedLayers::open(const ModelPack& pack,
                                                          const CpuWeights& weights,
                                                          const MemoryPlan& plan,
                                                          const ExtentReaderOptions& reading,
                                                          double bandwidth, Clock& clock) {
  std::unique_ptr<StreamedLayers> self(new StreamedLayers(pack, weights, clock));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ExtentReader> reader, self->open_reader(pack, reading));
  std::vector<StreamSection> pinned, streamed;
  const std::vector<StreamSection> all = sections_of(pack);
  const auto layers = static_cast<std::int64_t>(all.size()) - 1;
  const auto is_pinned = [&](std::int64_t i) {
    return i < layers ? i < plan.pinned_layers : plan.pinned_head;
  };
  for (std::int64_t i = 0; i <= layers; ++i) {
    const StreamSection& section = all[static_cast<std::size_t>(i)];
    self->sections_.push_back(
        {.offset = section.offset, .pinned = nullptr, .streamed = streamed.size()});
    (is_pinned(i) ? pinned : streamed).push_back(section);
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<const std::byte*> places, self->pin(*reader, pinned));
  auto place = places.begin();
  for (std::int64_t i = 0; i <= layers; ++i) {
    if (is_pinned(i)) self->sections_[static_cast<std::size_t>(i)].pinned = *place++;
  }
  // What is streamed of the layers follows what is pinned of them.
  const auto first = static_cast<std::size_t>(plan.pinned_layers);
  OUTRIDER_RETURN_IF_ERROR(self->stream(std::move(reader), std::move(streamed), plan.ring_bytes,
                                        {.bandwidth = bandwidth},
                                        [first](std::size_t index) { return first + index; }));
  return std::unique_ptr<FlashLayers>(std::move(self));
}

Result<const std::byte*> StreamedLayers::bytes_of(std::int64_t index) {
  const Section& section = sections_[static_cast<std::size_t>(index)];
  if (section.pinned == nullptr) return acquire_section(index, section.streamed);
  set_computing(index, true);
  return section.pinned;
}

Result<const CpuLayer*> StreamedLayers::acquire(std::int64_t layer) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::byte* bytes, bytes_of(layer));
  layer_ = layers_[static_cast<std::size_t>(layer)];
  const std::uint64_t offset = sections_[static_cast<std::size_t>(layer)].offset;
  visit_matrices(layer_, [&](LinearWeights& weights) { point(weights, offset, bytes); });
  return &layer_;
}

void StreamedLayers::choose_experts(std::int64_t, std::span<const std::int32_t>) {}

Result<const CpuExpert*> StreamedLayers::acquire_expert(std::int64_t layer, std::int32_t) {
  return internal_error("layer " + std::to_string(layer) + " has no experts");
}

Result<const LinearWeights*> StreamedLayers::acquire_head() {
  OUTRIDER_ASSIGN_OR_RETURN(const std::byte* bytes,
                            bytes_of(static_cast<std::int64_t>(layers_.size())));
  output_ = head_;
  point(output_, sections_.back().offset, bytes);
  return &output_;
}

}  // namespace outrider
