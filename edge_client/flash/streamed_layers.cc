// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/streamed_layers.h"

#include <algorithm>
#include <string>
#include <utility>

namespace outrider {
namespace {

std::size_t number_of(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

std::size_t extents_of_layer(const ModelPack& pack) {
  return pack.elastic() != nullptr ? pack.elastic()->levels.size() : 1;
}

}  // namespace

StreamSection layer_section(const ModelPack& pack, std::int64_t layer, std::size_t begin,
                            std::size_t end) {
  const bool is_layer = layer < pack.config().num_layers;
  const bool has_levels = is_layer && pack.elastic() != nullptr;
  const std::string name = is_layer ? "layer " + std::to_string(layer) : "the output matrix";
  StreamSection section = section_of(pack, pack.layer_extent(layer, begin), name, number_of(layer));
  section.pieces.clear();
  section.bytes = 0;
  for (std::size_t place = begin; place < end; ++place) {
    const PackExtent& extent = pack.layer_extent(layer, place);
    if (extent.bytes == 0) continue;
    section.bytes = extent.offset - section.offset + whole_pages(extent.bytes);
    section.pieces.push_back(
        {.name = has_levels ? "level " + level_of_extent(*pack.elastic(), place).name : "",
         .offset = extent.offset,
         .bytes = extent.bytes,
         .checksum = extent.checksum});
  }
  return section;
}

std::vector<StreamSection> sections_of(const ModelPack& pack) {
  std::vector<StreamSection> sections;
  const std::int64_t layers = pack.config().num_layers;
  for (std::int64_t i = 0; i <= layers; ++i) {
    sections.push_back(layer_section(pack, i, 0, i < layers ? extents_of_layer(pack) : 1));
  }
  return sections;
}

// A level of the same layers.
class StreamedLayers::Level final : public LayerStore {
 public:
  Level(StreamedLayers& all, std::vector<CpuLayer> layers, std::size_t extents)
      : all_(all), layers_(std::move(layers)), extents_(extents) {}

  Result<const CpuLayer*> acquire(std::int64_t layer) override {
    return all_.acquire(layers_[number_of(layer)], layer, extents_);
  }
  void choose_experts(std::int64_t layer, std::span<const std::int32_t> experts) override {
    all_.choose_experts(layer, experts);
  }
  Result<const CpuExpert*> acquire_expert(std::int64_t layer, std::int32_t expert) override {
    return all_.acquire_expert(layer, expert);
  }
  Result<const LinearWeights*> acquire_head() override { return all_.acquire_head(); }
  void end_pass() override { all_.end_pass(); }

 private:
  StreamedLayers& all_;
  const std::vector<CpuLayer> layers_;
  const std::size_t extents_;
};

std::unique_ptr<LayerStore> StreamedLayers::of_level(std::vector<CpuLayer> layers,
                                                     std::size_t extents) {
  return std::make_unique<Level>(*this, std::move(layers), extents);
}

Result<std::unique_ptr<FlashLayers>> StreamedLayers::open(const ModelPack& pack,
                                                          const CpuWeights& weights,
                                                          const MemoryPlan& plan,
                                                          const ExtentReaderOptions& reading,
                                                          double bandwidth, Clock& clock) {
  std::unique_ptr<StreamedLayers> self(new StreamedLayers(pack, weights, clock));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ExtentReader> reader, self->open_reader(pack, reading));
  const std::vector<StreamSection> pinned = self->choose_pinned(plan);
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<const std::byte*> places, self->pin(*reader, pinned));
  for (std::size_t i = 0; i < places.size(); ++i) self->places_[i].pinned.at = places[i];
  OUTRIDER_RETURN_IF_ERROR(self->stream(std::move(reader),
                                        self->choose_streamed(self->all_extents_), plan.ring_bytes,
                                        {.bandwidth = bandwidth}));
  return std::unique_ptr<FlashLayers>(std::move(self));
}

Result<std::unique_ptr<FlashLayers>> StreamedLayers::open_beside(
    const ModelPack& pack, const CpuWeights& weights, const MemoryPlan& plan,
    const ExtentReaderOptions& reading, double bandwidth, Clock& clock, LayerKeeper& keeper) {
  std::unique_ptr<StreamedLayers> self(new StreamedLayers(pack, weights, clock));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ExtentReader> reader, self->open_reader(pack, reading));
  OUTRIDER_RETURN_IF_ERROR(self->hand_over(*reader, self->choose_pinned(plan), keeper));
  OUTRIDER_RETURN_IF_ERROR(self->stream(std::move(reader),
                                        self->choose_streamed(self->all_extents_), plan.ring_bytes,
                                        {.bandwidth = bandwidth}));
  return std::unique_ptr<FlashLayers>(std::move(self));
}

// The part of each layer, and of the output matrix, that stays in memory, perhaps none.
std::vector<StreamSection> StreamedLayers::choose_pinned(const MemoryPlan& plan) {
  const auto layers = std::ssize(layers_);
  all_extents_ = extents_ = std::max<std::size_t>(plan.extents, 1);
  std::vector<StreamSection> pinned;
  for (std::int64_t i = 0; i <= layers; ++i) {
    const bool whole = i < layers ? i < plan.pinned_layers : plan.pinned_head;
    const std::size_t all = i < layers ? all_extents_ : 1;
    const std::size_t first = whole ? all : i < layers ? plan.resident_extents : 0;
    pinned.push_back(layer_section(pack_, i, 0, first));
    places_.push_back({.pinned = {pinned.back().offset, pinned.back().bytes, nullptr},
                       .first_streamed = first,
                       .section = std::nullopt,
                       .streamed = {}});
  }
  return pinned;
}

// One at a time, so that the host holds no more than one.
Status StreamedLayers::hand_over(ExtentReader& reader, std::span<const StreamSection> pinned,
                                 LayerKeeper& keeper) {
  for (std::size_t i = 0; i < pinned.size(); ++i) {
    ReadPart part = std::exchange(places_[i].pinned, {});
    if (part.bytes == 0) continue;
    OUTRIDER_ASSIGN_OR_RETURN(const AnonymousMemory memory, read_apart(reader, pinned[i]));
    part.at = memory.as<std::byte>();
    if (i == layers_.size()) {
      LinearWeights head = head_;
      point(head, {&part, 1});
      OUTRIDER_RETURN_IF_ERROR(keeper.keep_head(head));
      continue;
    }
    CpuLayer layer = layers_[i];
    visit_matrices(layer, [&](LinearWeights& weights) { point(weights, {&part, 1}); });
    OUTRIDER_RETURN_IF_ERROR(keeper.keep(static_cast<std::int64_t>(i), layer));
  }
  return {};
}

// The sections that a level of this many extents reads beside the pinned ones.
std::vector<StreamSection> StreamedLayers::choose_streamed(std::size_t extents) {
  std::vector<StreamSection> streamed;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    LayerBytes& place = places_[i];
    place.section = std::nullopt;
    const std::size_t end = i + 1 < places_.size() ? extents : 1;
    if (place.first_streamed >= end) continue;
    StreamSection section =
        layer_section(pack_, static_cast<std::int64_t>(i), place.first_streamed, end);
    if (section.bytes == 0) continue;
    place.section = streamed.size();
    place.streamed = {section.offset, section.bytes, nullptr};
    streamed.push_back(std::move(section));
  }
  return streamed;
}

// Where the layer's two parts are.
Result<std::array<FlashLayers::ReadPart, 2>> StreamedLayers::read(std::int64_t index) {
  const LayerBytes& place = places_[number_of(index)];
  std::array<ReadPart, 2> parts{place.pinned};
  if (!place.section) {
    set_computing(index, true);
    return parts;
  }
  parts[1] = place.streamed;
  OUTRIDER_ASSIGN_OR_RETURN(parts[1].at, acquire_section(index, *place.section));
  return parts;
}

Result<const CpuLayer*> StreamedLayers::acquire(const CpuLayer& layer, std::int64_t index,
                                                std::size_t extents) {
  if (stream_ != nullptr && extents != extents_) stream_->replace(choose_streamed(extents));
  extents_ = extents;
  OUTRIDER_ASSIGN_OR_RETURN(const auto parts, read(index));
  layer_ = layer;
  visit_matrices(layer_, [&](LinearWeights& weights) { point(weights, parts); });
  return &layer_;
}

Result<const CpuLayer*> StreamedLayers::acquire(std::int64_t layer) {
  return acquire(layers_[number_of(layer)], layer, all_extents_);
}

void StreamedLayers::choose_experts(std::int64_t, std::span<const std::int32_t>) {}

Result<const CpuExpert*> StreamedLayers::acquire_expert(std::int64_t layer, std::int32_t) {
  return internal_error("layer " + std::to_string(layer) + " has no experts");
}

Result<const LinearWeights*> StreamedLayers::acquire_head() {
  OUTRIDER_ASSIGN_OR_RETURN(const auto parts, read(std::ssize(layers_)));
  output_ = head_;
  point(output_, parts);
  return &output_;
}

void StreamedLayers::point_pinned(CpuWeights& weights) const {
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    visit_matrices(weights.layers[i], [&](LinearWeights& each) {
      point(each, {&places_[i].pinned, 1});
    });
  }
  point(weights.head, {&places_.back().pinned, 1});
}

}  // namespace outrider
