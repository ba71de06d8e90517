// A target that is larger than memory: its pack on the device's flash, streamed through a budget.
//
//   auto flash = *FlashModel::open("target.pack", {.memory_budget = 600 << 20}, clock);
//   VerifyEngine engine(flash->model(), ..);    // as with a model in memory, with the same bits
//
// Thread rule: as model.h; stats() and log() from any. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/engine/model/cpu/model_pack.h"
#include "common/engine/model/cpu/streaming_device.h"
#include "common/engine/model/model.h"
#include "edge_client/flash/compute_gate.h"
#include "edge_client/flash/extent_reader.h"
#include "edge_client/flash/flash_layers.h"
#include "edge_client/flash/memory_plan.h"
#include "edge_client/flash/streamed_layers.h"

namespace outrider {

struct FlashOptions {
  std::uint64_t memory_budget = 0;  // of everything; 0: none, all layers stay
  std::uint64_t other_bytes = 0;    // of the budget, for the draft and early exits
  std::string kv_dtype = "f32";
  int threads = 0;                           // 0: one per core
  std::optional<Position> max_context = {};  // positions of a cache
  ExtentReaderOptions reading = {};
  ComputeGate* gate = nullptr;  // closed while a pass computes; null: none
  // That computes in place of the CPU, and keeps what stays in memory; without levels and experts.
  std::optional<StreamingDevice> device = {};
  double bandwidth = 0;  // bytes per second of an emulated device; 0: as fast as this one
  // The names of an elastic model's levels: the largest one that is read, where empty means the
  // full one; and one that is in memory whole, with the output matrix, where empty means as large a
  // one as the budget allows.
  std::string level = {};
  std::string resident_level = {};
};

class FlashModel final {
 public:
  // Errors: those of ModelPack::open() and plan_memory(); of reading what stays in memory; of the
  // device.
  static Result<std::unique_ptr<FlashModel>> open(const std::string& path,
                                                  const FlashOptions& options, Clock& clock);
  // The same of a pack that is open, with that one's context.
  static Result<std::unique_ptr<FlashModel>> open(ModelPack pack, const FlashOptions& options,
                                                  Clock& clock);

  // The plan by which open() will spend the budget; reads no weights. Errors: of plan_memory() and
  // of the device's needs.
  static Result<MemoryPlan> plan_for(const ModelPack& pack, const FlashOptions& options);

  // The full model, or the largest level that is read.
  Model& model() { return *model_; }
  const ModelPack& pack() const { return pack_; }

  // For an elastic model: the levels that can be had, as the table lists them, and one of them,
  // which, like those of make_level(), shares threads and scratch memory with model(), and the
  // stream. This outlives it.
  std::span<const ElasticLevel> levels() const;
  Result<std::unique_ptr<Model>> make_level(const ElasticLevel& level);
  // Works as make_level_beside() does, for a level that is in memory, FlashOptions::resident_level
  // or smaller.
  Result<std::unique_ptr<Model>> make_level_beside(const ElasticLevel& level, int threads);
  const MemoryPlan& plan() const { return plan_; }
  StreamStats stats() const { return layers_->stats(); }
  StreamLog& log() const { return layers_->log(); }
  // One line: what stays in memory, what is streamed how.
  std::string about() const;

 private:
  explicit FlashModel(ModelPack pack) : pack_(std::move(pack)) {}
  bool has_experts() const { return pack_.config().experts.count > 0; }
  Result<std::unique_ptr<Model>> on_cpu(CpuWeights weights, const FlashOptions& options,
                                        Clock& clock);
  Result<std::unique_ptr<Model>> on_device(CpuWeights weights, const FlashOptions& options,
                                           Clock& clock);
  Result<std::unique_ptr<Model>> checked(std::unique_ptr<Model> model) const;
  std::string levels_text() const;

  ModelPack pack_;
  MemoryPlan plan_;
  double bandwidth_ = 0;
  std::string kv_dtype_;
  std::string device_;                  // empty: the CPU
  FlashLayers* layers_ = nullptr;       // model_'s
  StreamedLayers* by_level_ = nullptr;  // the same; null: it has experts, or a device computes
  Model* cpu_ = nullptr;                // what model_ stands before
  std::unique_ptr<Model> model_;
};

}  // namespace outrider
