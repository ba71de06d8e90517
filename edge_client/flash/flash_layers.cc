// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/flash_layers.h"

#include <algorithm>

#include "common/engine/model/cpu/pack/pack_checksum.h"

namespace outrider {
namespace {

constexpr std::uint64_t kPinChunk = 4 << 20;

Status read_whole(ExtentReader& reader, const StreamSection& section, std::byte* to) {
  for (std::uint64_t at = 0; at < section.bytes; at += kPinChunk) {
    const std::uint64_t bytes = std::min(kPinChunk, section.bytes - at);
    reader.submit({.offset = section.offset + at,
                   .buffer = {to + at, static_cast<std::size_t>(bytes)},
                   .tag = 0});
    const ReadResult read = reader.wait();
    if (read.status.ok()) continue;
    return failed_read(section, at, bytes, read.status).with_context(section.name);
  }
  for (const SectionPiece& piece : section.pieces) {
    const Status right = check_piece(section, piece, to);
    if (!right.ok()) return right.with_context(section.name);
  }
  return {};
}

}  // namespace

StreamSection section_of(const ModelPack& pack, const PackExtent& extent, const std::string& what,
                         std::size_t number) {
  return {.name = pack.path() + ", " + what,
          .offset = extent.offset,
          .bytes = whole_pages(extent.bytes),
          .pieces = {{"", extent.offset, extent.bytes, extent.checksum}},
          .number = number};
}

FlashLayers::FlashLayers(const ModelPack& pack, const CpuWeights& weights, Clock& clock)
    : base_(pack.base()),
      clock_(clock),
      log_(weights.layers.size()),
      layers_(weights.layers),
      head_(weights.head) {}

Result<std::unique_ptr<ExtentReader>> FlashLayers::open_reader(const ModelPack& pack,
                                                               const ExtentReaderOptions& reading) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ExtentReader> reader,
                            open_extent_reader(pack.path(), reading));
  description_ = reader->description();
  return reader;
}

Result<std::vector<const std::byte*>> FlashLayers::pin(ExtentReader& reader,
                                                       std::span<const StreamSection> sections) {
  std::vector<const std::byte*> places;
  std::uint64_t bytes = 0;
  for (const StreamSection& section : sections) bytes += section.bytes;
  if (bytes == 0) return places;
  OUTRIDER_ASSIGN_OR_RETURN(
      pinned_, AnonymousMemory::make(static_cast<std::int64_t>(bytes), "the layers that stay",
                                     "a smaller --memory-budget"));
  std::byte* to = pinned_.as<std::byte>();
  for (const StreamSection& section : sections) {
    OUTRIDER_RETURN_IF_ERROR(read_whole(reader, section, to));
    places.push_back(to);
    to += section.bytes;
  }
  return places;
}

Result<AnonymousMemory> FlashLayers::read_apart(ExtentReader& reader,
                                                const StreamSection& section) {
  OUTRIDER_ASSIGN_OR_RETURN(AnonymousMemory memory,
                            AnonymousMemory::make(static_cast<std::int64_t>(section.bytes),
                                                  section.name, "a smaller --memory-budget"));
  OUTRIDER_RETURN_IF_ERROR(read_whole(reader, section, memory.as<std::byte>()));
  return memory;
}

Status FlashLayers::stream(std::unique_ptr<ExtentReader> reader,
                           std::vector<StreamSection> sections, std::uint64_t ring_bytes,
                           SectionStreamOptions options) {
  if (sections.empty()) return {};
  OUTRIDER_ASSIGN_OR_RETURN(
      AnonymousMemory ring,
      AnonymousMemory::make(static_cast<std::int64_t>(ring_bytes), "the buffers of the stream",
                            "a smaller --memory-budget"));
  options.on_read = [this](const StreamSection& section, TimePoint begin, TimePoint end) {
    log_.has_read(section.number, begin, end);
  };
  stream_ = std::make_unique<SectionStream>(std::move(reader), std::move(sections), std::move(ring),
                                            static_cast<std::size_t>(ring_bytes), options, clock_);
  return {};
}

// From where the file was mapped to where it was read.
void FlashLayers::point(LinearWeights& weights, std::span<const ReadPart> parts) const {
  const auto move = [&](WeightMatrix& matrix) {
    const auto at = static_cast<std::uint64_t>(static_cast<const std::byte*>(matrix.data) - base_);
    for (const ReadPart& part : parts) {
      if (at - part.offset < part.bytes) matrix.data = part.at + (at - part.offset);
    }
  };
  if (weights.parts.empty()) move(weights.matrix);
  for (WeightMatrix& part : weights.parts) move(part);
}

void FlashLayers::set_computing(std::int64_t layer, bool computes) {
  if (gate_ != nullptr) gate_->pass_computes(computes);
  if (stream_ == nullptr) return;
  const auto section = static_cast<std::size_t>(layer);
  const Duration read = stream_->stats().reading;
  if (computes) {
    log_.computes(section, read, clock_.now());
  } else {
    log_.waits_for(section, read, clock_.now());
  }
}

Result<const std::byte*> FlashLayers::acquire_section(std::int64_t layer, std::size_t section) {
  set_computing(layer, false);
  Result<const std::byte*> bytes = stream_->acquire(section);
  if (bytes.ok()) set_computing(layer, true);
  return bytes;
}

void FlashLayers::end_pass() {
  if (gate_ != nullptr) gate_->pass_computes(false);
  if (stream_ == nullptr) return;
  log_.end_pass(stream_->stats().reading, clock_.now());
  stream_->release();
}

}  // namespace outrider
