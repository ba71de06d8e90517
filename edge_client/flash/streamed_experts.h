// The layers of a pack with experts: attention, routers and output matrix in memory, with the
// experts of the first layers. Of the other layers those experts are read that rows go to, all of a
// layer's in one request, and each computes while those behind it are read.
//
// Thread rule: as layer_store.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "edge_client/flash/flash_layers.h"

namespace outrider {

class StreamedExperts final : public FlashLayers {
 public:
  // Works as StreamedLayers::open() does, with experts. plan.pinned_layers: those whose experts
  // stay.
  static Result<std::unique_ptr<FlashLayers>> open(const ModelPack& pack, const CpuWeights& weights,
                                                   const MemoryPlan& plan,
                                                   const ExtentReaderOptions& reading,
                                                   double bandwidth, Clock& clock);

  Result<const CpuLayer*> acquire(std::int64_t layer) override;
  void choose_experts(std::int64_t layer, std::span<const std::int32_t> experts) override;
  Result<const CpuExpert*> acquire_expert(std::int64_t layer, std::int32_t expert) override;
  Result<const LinearWeights*> acquire_head() override;

 private:
  using FlashLayers::FlashLayers;
  void point_pinned(const ModelPack& pack, std::span<const std::byte* const> places);
  // The number of an expert's section within the stream.
  std::size_t streamed(std::int64_t layer, std::int32_t expert) const;

  std::int64_t pinned_layers_ = 0;
  std::vector<ReadPart> streamed_;   // the stream's sections, not yet read
  std::vector<std::size_t> chosen_;  // sections of the layer in use
  CpuExpert expert_;                 // the one in use, its matrices where they are now
};

// Sections of a layer's experts, as they are read.
std::vector<StreamSection> expert_sections_of(const ModelPack& pack, std::int64_t layer);

}  // namespace outrider
