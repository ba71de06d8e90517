// The common parts of the streams of a pack's layers (streamed_layers.h) and of its experts
// (streamed_experts.h): memory for what stays, the stream for the rest, and a log of passes.
//
// Thread rule: as layer_store.h; stats() and log() from any. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/engine/model/cpu/anonymous_memory.h"
#include "common/engine/model/cpu/layer_store.h"
#include "common/engine/model/cpu/model_pack.h"
#include "edge_client/flash/compute_gate.h"
#include "edge_client/flash/extent_reader.h"
#include "edge_client/flash/memory_plan.h"
#include "edge_client/flash/section_stream.h"
#include "edge_client/flash/stream_log.h"

namespace outrider {

class FlashLayers : public LayerStore {
 public:
  void end_pass() override;
  std::span<std::byte> buffers() override {
    return stream_ != nullptr ? stream_->memory() : std::span<std::byte>();
  }

  // The gate closes while a pass computes and opens while it waits; it outlives this.
  void set_gate(ComputeGate& gate) { gate_ = &gate; }

  StreamStats stats() const { return stream_ != nullptr ? stream_->stats() : StreamStats{}; }
  // The log of passes that are streamed in part or whole; empty where all is pinned.
  StreamLog& log() { return log_; }
  const std::string& description() const { return description_; }

 protected:
  // weights: of the pack, whose mapping is not touched. clock outlives this.
  FlashLayers(const ModelPack& pack, const CpuWeights& weights, Clock& clock);

  // Opens a reader of the pack, which description() names from then on.
  Result<std::unique_ptr<ExtentReader>> open_reader(const ModelPack& pack,
                                                    const ExtentReaderOptions& reading);
  // Reads sections into memory that stays; where each lies. Errors: those of reading;
  // RESOURCE_EXHAUSTED.
  Result<std::vector<const std::byte*>> pin(ExtentReader& reader,
                                            std::span<const StreamSection> sections);
  // Reads one section into memory of its own, for a device that keeps it.
  static Result<AnonymousMemory> read_apart(ExtentReader& reader, const StreamSection& section);
  // Streams sections, numbered as the log numbers them, if there are any. options.on_read is
  // replaced.
  Status stream(std::unique_ptr<ExtentReader> reader, std::vector<StreamSection> sections,
                std::uint64_t ring_bytes, SectionStreamOptions options);

  // A part of the file, and where it was read to.
  struct ReadPart {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    const std::byte* at = nullptr;
  };
  // `weights`, which points into the pack's mapping, then points to where that was read.
  void point(LinearWeights& weights, std::span<const ReadPart> parts) const;
  // The pass computes this layer (num_layers: the output matrix) from now on, or waits for it.
  void set_computing(std::int64_t layer, bool computes);
  // A section of the stream, for that layer.
  Result<const std::byte*> acquire_section(std::int64_t layer, std::size_t section);

 private:
  const std::byte* base_;  // of the mapping that the matrices point into
  AnonymousMemory pinned_;
  std::string description_;
  Clock& clock_;
  StreamLog log_;
  ComputeGate* gate_ = nullptr;  // null: nobody asks

 protected:
  std::vector<CpuLayer> layers_;
  LinearWeights head_;
  std::unique_ptr<SectionStream> stream_;  // null: all is pinned; last, as it writes to the log
};

// So many bytes as they are read: in whole pages.
constexpr std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
}

// A pack's extent as it is read. what: "layer 3".
StreamSection section_of(const ModelPack& pack, const PackExtent& extent, const std::string& what,
                         std::size_t number);

}  // namespace outrider
