// The layers of a pack as a pass asks for them: the pinned ones from memory, the others through a
// stream of the file.
//
// Thread rule: as layer_store.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/model/cpu/anonymous_memory.h"
#include "common/model/cpu/layer_store.h"
#include "common/model/cpu/model_pack.h"
#include "edge_client/flash/compute_gate.h"
#include "edge_client/flash/extent_reader.h"
#include "edge_client/flash/memory_plan.h"
#include "edge_client/flash/section_stream.h"
#include "edge_client/flash/stream_log.h"

namespace outrider {

// What a pass streams of a pack, in the order of a pass.
class StreamedLayers final : public LayerStore {
 public:
  // Reads what is pinned; then the stream begins. weights: of the pack, whose mapping is not
  // touched. clock outlives this. Errors: those of reading; RESOURCE_EXHAUSTED.
  static Result<std::unique_ptr<StreamedLayers>> open(const ModelPack& pack,
                                                      const CpuWeights& weights,
                                                      const MemoryPlan& plan,
                                                      const ExtentReaderOptions& reading,
                                                      double bandwidth, Clock& clock);

  Result<const CpuLayer*> acquire(std::int64_t layer) override;
  Result<const LinearWeights*> acquire_head() override;
  void end_pass() override;

  // The gate closes while a pass computes and opens while it waits; it outlives this.
  void set_gate(ComputeGate& gate) { gate_ = &gate; }

  StreamStats stats() const;
  // Of passes that are streamed in part or whole; empty where all is pinned.
  StreamLog& log() { return log_; }
  const std::string& description() const { return description_; }

 private:
  // Where a layer's matrices come from.
  struct Section {
    std::uint64_t offset = 0;           // of the file
    const std::byte* pinned = nullptr;  // null: streamed
    std::size_t streamed = 0;           // number within the stream
  };

  StreamedLayers(const ModelPack& pack, const CpuWeights& weights, Clock& clock);
  Status pin(ExtentReader& reader, const std::vector<StreamSection>& sections);
  Result<const std::byte*> bytes_of(std::int64_t index);
  void set_computing(std::int64_t index, bool computes);
  void point(LinearWeights& weights, const Section& section, const std::byte* bytes) const;

  const std::byte* base_;  // of the mapping that the matrices point into
  std::vector<CpuLayer> layers_;
  LinearWeights head_;
  std::vector<Section> sections_;  // of each layer, and of the output matrix
  AnonymousMemory pinned_;
  CpuLayer layer_;        // the one in use, its matrices where they are now
  LinearWeights output_;  // the same of the output matrix
  std::string description_;
  Clock& clock_;
  StreamLog log_;
  std::unique_ptr<SectionStream> stream_;  // null: all is pinned
  ComputeGate* gate_ = nullptr;            // null: nobody asks
};

// The pack's layers and output matrix, as they are read.
std::vector<StreamSection> sections_of(const ModelPack& pack);

}  // namespace outrider
