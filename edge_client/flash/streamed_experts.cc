// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/streamed_experts.h"

#include <iterator>
#include <string>
#include <utility>

#include "edge_client/flash/streamed_layers.h"

namespace outrider {
namespace {

std::size_t as_size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

}  // namespace

std::vector<StreamSection> expert_sections_of(const ModelPack& pack, std::int64_t layer) {
  std::vector<StreamSection> sections;
  for (std::int32_t e = 0; e < pack.config().experts.count; ++e) {
    sections.push_back(section_of(
        pack, pack.expert_extent(layer, e),
        "layer " + std::to_string(layer) + ", expert " + std::to_string(e), as_size(layer)));
  }
  return sections;
}

Result<std::unique_ptr<FlashLayers>> StreamedExperts::open(const ModelPack& pack,
                                                           const CpuWeights& weights,
                                                           const MemoryPlan& plan,
                                                           const ExtentReaderOptions& reading,
                                                           double bandwidth, Clock& clock) {
  std::unique_ptr<StreamedExperts> self(new StreamedExperts(pack, weights, clock));
  self->pinned_layers_ = plan.pinned_layers;
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ExtentReader> reader, self->open_reader(pack, reading));
  std::vector<StreamSection> pinned = sections_of(pack), streamed;
  for (std::int64_t layer = 0; layer < pack.config().num_layers; ++layer) {
    auto& list = layer < plan.pinned_layers ? pinned : streamed;
    std::ranges::move(expert_sections_of(pack, layer), std::back_inserter(list));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<const std::byte*> places, self->pin(*reader, pinned));
  self->point_pinned(pack, places);
  for (const StreamSection& each : streamed) {
    self->streamed_.push_back({each.offset, each.bytes, nullptr});
  }
  OUTRIDER_RETURN_IF_ERROR(self->stream(std::move(reader), std::move(streamed), plan.ring_bytes,
                                        {.bandwidth = bandwidth, .on_demand = true}));
  return std::unique_ptr<FlashLayers>(std::move(self));
}

// places: of the layers without their experts, of the output matrix, of the first layers' experts.
void StreamedExperts::point_pinned(const ModelPack& pack,
                                   std::span<const std::byte* const> places) {
  const auto place_at = [&](LinearWeights& weights, const PackExtent& extent, std::size_t place) {
    const ReadPart part{extent.offset, extent.bytes, places[place]};
    point(weights, {&part, 1});
  };
  const std::size_t num_layers = layers_.size();
  for (std::size_t i = 0; i < num_layers; ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    std::vector<CpuExpert> experts = std::exchange(layers_[i].experts, {});
    visit_matrices(layers_[i],
                   [&](LinearWeights& weights) { place_at(weights, pack.layer_extent(layer), i); });
    layers_[i].experts = std::move(experts);
  }
  place_at(head_, pack.layer_extent(static_cast<std::int64_t>(num_layers)), num_layers);
  std::size_t place = num_layers + 1;
  for (std::int64_t layer = 0; layer < pinned_layers_; ++layer) {
    std::int32_t e = 0;
    for (CpuExpert& expert : layers_[as_size(layer)].experts) {
      for (LinearWeights* weights : {&expert.gate, &expert.up, &expert.down}) {
        place_at(*weights, pack.expert_extent(layer, e), place);
      }
      ++e;
      ++place;
    }
  }
}

std::size_t StreamedExperts::streamed(std::int64_t layer, std::int32_t expert) const {
  const std::size_t count = layers_[as_size(layer)].experts.size();
  return as_size(layer - pinned_layers_) * count + as_size(expert);
}

Result<const CpuLayer*> StreamedExperts::acquire(std::int64_t layer) {
  set_computing(layer, true);
  return &layers_[as_size(layer)];
}

void StreamedExperts::choose_experts(std::int64_t layer, std::span<const std::int32_t> experts) {
  if (layer < pinned_layers_) return;
  chosen_.clear();
  for (const std::int32_t expert : experts) chosen_.push_back(streamed(layer, expert));
  stream_->request(chosen_);
}

Result<const CpuExpert*> StreamedExperts::acquire_expert(std::int64_t layer, std::int32_t expert) {
  const CpuExpert& found = layers_[as_size(layer)].experts[as_size(expert)];
  if (layer < pinned_layers_) return &found;
  const std::size_t section = streamed(layer, expert);
  ReadPart part = streamed_[section];
  OUTRIDER_ASSIGN_OR_RETURN(part.at, acquire_section(layer, section));
  expert_ = found;
  for (LinearWeights* weights : {&expert_.gate, &expert_.up, &expert_.down}) {
    point(*weights, {&part, 1});
  }
  return &expert_;
}

Result<const LinearWeights*> StreamedExperts::acquire_head() {
  set_computing(static_cast<std::int64_t>(layers_.size()), true);
  return &head_;
}

}  // namespace outrider
