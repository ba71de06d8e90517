// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/streamed_layers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/model/cpu/pack/pack_checksum.h"

namespace outrider {
namespace {

constexpr std::uint64_t kPinChunk = 4 << 20;

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
}

Status read_whole(ExtentReader& reader, const StreamSection& section, std::byte* to) {
  for (std::uint64_t at = 0; at < section.bytes; at += kPinChunk) {
    const std::uint64_t bytes = std::min(kPinChunk, section.bytes - at);
    reader.submit({.offset = section.offset + at,
                   .buffer = {to + at, static_cast<std::size_t>(bytes)},
                   .tag = 0});
    const ReadResult read = reader.wait();
    if (!read.status.ok()) return read.status.with_context(section.name);
  }
  if (pack_checksum({to, static_cast<std::size_t>(section.content)}) == section.checksum) return {};
  return data_loss(section.name + ": its checksum is wrong: the file is damaged; pack it again");
}

}  // namespace

std::vector<StreamSection> sections_of(const ModelPack& pack) {
  std::vector<StreamSection> sections;
  const std::int64_t layers = pack.config().num_layers;
  for (std::int64_t i = 0; i <= layers; ++i) {
    const PackExtent& extent = pack.layer_extent(i);
    const std::string name =
        i < layers ? "layer " + std::to_string(i) : std::string("the output matrix");
    sections.push_back({.name = pack.path() + ", " + name,
                        .offset = extent.offset,
                        .bytes = whole_pages(extent.bytes),
                        .checksum = extent.checksum,
                        .content = extent.bytes});
  }
  return sections;
}

StreamedLayers::StreamedLayers(const ModelPack& pack, const CpuWeights& weights, Clock& clock)
    : base_(pack.base()),
      layers_(weights.layers),
      head_(weights.head),
      clock_(clock),
      log_(weights.layers.size()) {}

Result<std::unique_ptr<StreamedLayers>> StreamedLayers::open(const ModelPack& pack,
                                                             const CpuWeights& weights,
                                                             const MemoryPlan& plan,
                                                             const ExtentReaderOptions& reading,
                                                             double bandwidth, Clock& clock) {
  std::unique_ptr<StreamedLayers> self(new StreamedLayers(pack, weights, clock));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ExtentReader> reader,
                            open_extent_reader(pack.path(), reading));
  self->description_ = reader->description();
  std::vector<StreamSection> pinned, streamed;
  const std::vector<StreamSection> all = sections_of(pack);
  const auto layers = static_cast<std::int64_t>(all.size()) - 1;
  for (std::int64_t i = 0; i <= layers; ++i) {
    const StreamSection& section = all[static_cast<std::size_t>(i)];
    const bool is_pinned = i < layers ? i < plan.pinned_layers : plan.pinned_head;
    self->sections_.push_back(
        {.offset = section.offset, .pinned = nullptr, .streamed = streamed.size()});
    (is_pinned ? pinned : streamed).push_back(section);
  }
  if (!pinned.empty()) OUTRIDER_RETURN_IF_ERROR(self->pin(*reader, pinned));
  if (streamed.empty()) return self;
  OUTRIDER_ASSIGN_OR_RETURN(
      AnonymousMemory ring,
      AnonymousMemory::make(static_cast<std::int64_t>(plan.ring_bytes), "the buffers of the stream",
                            "a smaller --memory-budget"));
  // What is streamed of the layers follows what is pinned of them.
  const auto first = static_cast<std::size_t>(plan.pinned_layers);
  const SectionStreamOptions streaming{
      .bandwidth = bandwidth,
      .on_read = [&log = self->log_, first](std::size_t index, TimePoint begin, TimePoint end) {
        log.has_read(first + index, begin, end);
      }};
  self->stream_ =
      std::make_unique<SectionStream>(std::move(reader), std::move(streamed), std::move(ring),
                                      static_cast<std::size_t>(plan.ring_bytes), streaming, clock);
  return self;
}

Status StreamedLayers::pin(ExtentReader& reader, const std::vector<StreamSection>& sections) {
  std::uint64_t bytes = 0;
  for (const StreamSection& section : sections) bytes += section.bytes;
  OUTRIDER_ASSIGN_OR_RETURN(
      pinned_, AnonymousMemory::make(static_cast<std::int64_t>(bytes), "the layers that stay",
                                     "a smaller --memory-budget"));
  std::byte* to = pinned_.as<std::byte>();
  for (const StreamSection& section : sections) {
    OUTRIDER_RETURN_IF_ERROR(read_whole(reader, section, to));
    std::ranges::find(sections_, section.offset, &Section::offset)->pinned = to;
    to += section.bytes;
  }
  return {};
}

Result<const std::byte*> StreamedLayers::bytes_of(std::int64_t index) {
  const Section& section = sections_[static_cast<std::size_t>(index)];
  if (section.pinned != nullptr) {
    set_computing(index, true);
    return section.pinned;
  }
  set_computing(index, false);
  Result<const std::byte*> bytes = stream_->acquire(section.streamed);
  if (bytes.ok()) set_computing(index, true);
  return bytes;
}

void StreamedLayers::set_computing(std::int64_t index, bool computes) {
  if (gate_ != nullptr) gate_->pass_computes(computes);
  if (stream_ == nullptr) return;
  const auto section = static_cast<std::size_t>(index);
  const Duration read = stream_->stats().reading;
  if (computes) {
    log_.computes(section, read, clock_.now());
  } else {
    log_.waits_for(section, read, clock_.now());
  }
}

// From where the file was mapped to where it was read.
void StreamedLayers::point(LinearWeights& weights, const Section& section,
                           const std::byte* bytes) const {
  const auto* mapped = static_cast<const std::byte*>(weights.matrix.data);
  weights.matrix.data = bytes + (mapped - base_) - section.offset;
}

Result<const CpuLayer*> StreamedLayers::acquire(std::int64_t layer) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::byte* bytes, bytes_of(layer));
  layer_ = layers_[static_cast<std::size_t>(layer)];
  const Section& section = sections_[static_cast<std::size_t>(layer)];
  visit_matrices(layer_, [&](LinearWeights& weights) { point(weights, section, bytes); });
  return &layer_;
}

Result<const LinearWeights*> StreamedLayers::acquire_head() {
  OUTRIDER_ASSIGN_OR_RETURN(const std::byte* bytes,
                            bytes_of(static_cast<std::int64_t>(layers_.size())));
  output_ = head_;
  point(output_, sections_.back(), bytes);
  return &output_;
}

void StreamedLayers::end_pass() {
  if (gate_ != nullptr) gate_->pass_computes(false);
  if (stream_ == nullptr) return;
  log_.end_pass(stream_->stats().reading, clock_.now());
  stream_->release();
}

StreamStats StreamedLayers::stats() const {
  return stream_ != nullptr ? stream_->stats() : StreamStats{};
}

}  // namespace outrider
