// The layers of a pack as a pass asks for them: from memory what the plan keeps there, a layer's
// first levels or the whole layer, and the rest through a stream of the file.
//
// Thread rule: as layer_store.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/engine/model/cpu/streaming_device.h"
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
  // The same for a device that keeps what is pinned: that comes to the keeper, and no memory here
  // holds it. Without levels. Errors: those of the keeper too.
  static Result<std::unique_ptr<FlashLayers>> open_beside(
      const ModelPack& pack, const CpuWeights& weights, const MemoryPlan& plan,
      const ExtentReaderOptions& reading, double bandwidth, Clock& clock, LayerKeeper& keeper);

  Result<const CpuLayer*> acquire(std::int64_t layer) override;
  void choose_experts(std::int64_t layer, std::span<const std::int32_t> experts) override;
  Result<const CpuExpert*> acquire_expert(std::int64_t layer, std::int32_t expert) override;
  Result<const LinearWeights*> acquire_head() override;

  // The layers of a level, from the same memory and the same stream, which from the level's first
  // pass on reads no more than it needs. layers: of that level's weights; extents: how many of a
  // layer's it has. This outlives it.
  std::unique_ptr<LayerStore> of_level(std::vector<CpuLayer> layers, std::size_t extents);

  // Points weights of the pack to what is pinned of them.
  void point_pinned(CpuWeights& weights) const;

 private:
  class Level;
  struct LayerBytes {
    ReadPart pinned;                     // a prefix of the layer, perhaps none or all of it
    std::size_t first_streamed = 0;      // extent behind it
    std::optional<std::size_t> section;  // of the stream, with the rest; nothing: all is pinned
    ReadPart streamed;                   // that, not yet read
  };

  StreamedLayers(const ModelPack& pack, const CpuWeights& weights, Clock& clock)
      : FlashLayers(pack, weights, clock), pack_(pack) {}
  std::vector<StreamSection> choose_pinned(const MemoryPlan& plan);
  Status hand_over(ExtentReader& reader, std::span<const StreamSection> pinned,
                   LayerKeeper& keeper);
  std::vector<StreamSection> choose_streamed(std::size_t extents);
  Result<std::array<ReadPart, 2>> read(std::int64_t index);
  Result<const CpuLayer*> acquire(const CpuLayer& layer, std::int64_t index, std::size_t extents);

  const ModelPack& pack_;
  std::vector<LayerBytes> places_;  // of each layer, and of the output matrix
  std::size_t all_extents_ = 1;     // of a layer, of the largest level
  std::size_t extents_ = 1;         // of which the stream has the rest
  CpuLayer layer_;                  // the one in use, its matrices where they are now
  LinearWeights output_;            // the same of the output matrix
};

// The first extents of a pack's layer, from number `begin` to `end`, as they are read in one piece.
StreamSection layer_section(const ModelPack& pack, std::int64_t layer, std::size_t begin,
                            std::size_t end);
// The pack's layers, without experts, and its output matrix, as they are read.
std::vector<StreamSection> sections_of(const ModelPack& pack);

}  // namespace outrider
