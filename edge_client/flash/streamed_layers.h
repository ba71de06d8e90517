// The layers of a pack as a pass asks for them: the pinned ones from memory, the others through a
// stream of the file.
//
// Thread rule: as layer_store.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "edge_client/flash/flash_layers.h"

namespace outrider {

class StreamedLayers final : public FlashLayers {
 public:
  // Reads what is pinned; then the stream begins. weights: of the pack, whose mapping is not
  // touched; without experts. clock outlives this. Errors: those of reading; RESOURCE_EXHAUSTED.
  static Result<std::unique_ptr<FlashLayers>> open(const ModelPack& pack, const CpuWeights& weights,
                                                   const MemoryPlan& plan,
                                                   const ExtentReaderOptions& reading,
                                                   double bandwidth, Clock& clock);

  Result<const CpuLayer*> acquire(std::int64_t layer) override;
  void choose_experts(std::int64_t layer, std::span<const std::int32_t> experts) override;
  Result<const CpuExpert*> acquire_expert(std::int64_t layer, std::int32_t expert) override;
  Result<const LinearWeights*> acquire_head() override;

 private:
  // Where a layer's matrices come from.
  struct Section {
    std::uint64_t offset = 0;           // of the file
    const std::byte* pinned = nullptr;  // null: streamed
    std::size_t streamed = 0;           // number within the stream
  };

  using FlashLayers::FlashLayers;
  Result<const std::byte*> bytes_of(std::int64_t index);

  std::vector<Section> sections_;  // of each layer, and of the output matrix
  CpuLayer layer_;                 // the one in use, its matrices where they are now
  LinearWeights output_;           // the same of the output matrix
};

// The pack's layers and output matrix, as they are read; without experts.
std::vector<StreamSection> sections_of(const ModelPack& pack);

}  // namespace outrider
