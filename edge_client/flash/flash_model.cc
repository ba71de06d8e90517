// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/flash_model.h"

#include <algorithm>
#include <cstdio>
#include <future>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "common/model/cpu/cpu_model.h"
#include "common/model/cpu/cpu_pass.h"
#include "common/model/format/architecture.h"
#include "edge_client/flash/streamed_experts.h"
#include "edge_client/flash/streamed_layers.h"
#include "edge_client/flash/whole_file_model.h"

namespace outrider {
namespace {

// The program itself, its stacks, tokenizer and messages.
constexpr std::uint64_t kProgramBytes = 48 << 20;

// Of a pass over as many rows as the context has, and the logits of the widest round.
std::uint64_t activation_bytes(const ModelConfig& config) {
  constexpr std::uint64_t kLogitRows = 65;
  const auto wide = static_cast<std::uint64_t>(config.vocab_size) * kLogitRows * sizeof(float);
  return static_cast<std::uint64_t>(CpuPass::scratch_bytes(config, config.max_positions)) + wide;
}

std::uint64_t sum_of(const std::vector<std::uint64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

// All except the experts stays in memory: each pass uses it, and it is little. The buffers hold
// what a row goes to, twice.
void demand_experts(const ModelPack& pack, MemoryDemand& demand) {
  const ModelConfig& config = pack.config();
  demand.fixed.push_back(
      {"attention, routers and the output matrix", sum_of(std::exchange(demand.layers, {}))});
  std::uint64_t largest = 0;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    std::uint64_t bytes = 0;
    for (const StreamSection& section : expert_sections_of(pack, layer)) {
      bytes += section.bytes;
      largest = std::max(largest, section.bytes);
    }
    demand.layers.push_back(bytes);
  }
  demand.ring =
      largest * static_cast<std::uint64_t>(std::min(2 * config.experts.used, config.experts.count));
}

Result<MemoryDemand> demand_of(const ModelPack& pack, const FlashOptions& options) {
  const ModelConfig& config = pack.config();
  OUTRIDER_ASSIGN_OR_RETURN(const std::int64_t kv,
                            cpu_kv_bytes(config, options.kv_dtype, config.max_positions));
  MemoryDemand demand;
  demand.fixed = {{"the program", kProgramBytes},
                  {"the draft and early exits", options.other_bytes},
                  {"keys and values of " + std::to_string(config.max_positions) + " positions",
                   static_cast<std::uint64_t>(kv)},
                  {"activations", activation_bytes(config)}};
  for (const StreamSection& section : sections_of(pack)) demand.layers.push_back(section.bytes);
  if (config.experts.count > 0) {
    demand_experts(pack, demand);
    return demand;
  }
  demand.head = demand.layers.back();
  demand.layers.pop_back();
  return demand;
}

Result<MemoryPlan> plan_of(const ModelPack& pack, const FlashOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const MemoryDemand demand, demand_of(pack, options));
  return plan_memory(demand, options.memory_budget > 0 ? options.memory_budget
                                                       : std::numeric_limits<std::uint64_t>::max());
}

EmbeddingRows embedding_rows(const ModelPack& pack) {
  const TensorView& embedding = pack.files().weights.at(weight_name(ModelPart::kEmbedding));
  const auto rows = static_cast<std::size_t>(pack.config().vocab_size);
  return {.offset = static_cast<std::uint64_t>(embedding.data - pack.base()),
          .bytes = embedding.num_bytes / rows};
}

}  // namespace

Status FlashModel::check_budget(const ModelPack& pack, const FlashOptions& options) {
  return plan_of(pack, options).status();
}

Result<std::unique_ptr<FlashModel>> FlashModel::open(const std::string& path,
                                                     const FlashOptions& options, Clock& clock) {
  OUTRIDER_ASSIGN_OR_RETURN(ModelPack pack, ModelPack::open(path, options.max_context));
  return open(std::move(pack), options, clock);
}

Result<std::unique_ptr<FlashModel>> FlashModel::open(ModelPack pack, const FlashOptions& options,
                                                     Clock& clock) {
  std::unique_ptr<FlashModel> self(new FlashModel(std::move(pack)));
  OUTRIDER_ASSIGN_OR_RETURN(self->plan_, plan_of(self->pack_, options));
  // Beside the reading of what stays in memory.
  std::future<Status> checked =
      std::async(std::launch::async, [&pack = self->pack_] { return pack.check_tensors(); });
  self->bandwidth_ = options.bandwidth;
  OUTRIDER_ASSIGN_OR_RETURN(CpuWeights weights, self->pack_.weights());
  const auto open_layers = self->has_experts() ? &StreamedExperts::open : &StreamedLayers::open;
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<FlashLayers> layers,
      open_layers(self->pack_, weights, self->plan_, options.reading, options.bandwidth, clock));
  self->layers_ = layers.get();
  if (options.gate != nullptr) layers->set_gate(*options.gate);
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<Model> model,
      make_cpu_model(std::move(weights), std::move(layers),
                     {.kv_dtype = options.kv_dtype, .threads = options.threads}));
  OUTRIDER_ASSIGN_OR_RETURN(
      self->model_,
      make_whole_file_model(std::move(model), self->pack_.path(), embedding_rows(self->pack_)));
  OUTRIDER_RETURN_IF_ERROR(checked.get());
  return self;
}

std::string FlashModel::about() const {
  const std::int64_t layers = pack_.config().num_layers;
  std::string text = std::to_string(plan_.pinned_layers) + " of " + std::to_string(layers) +
                     " layers" +
                     (plan_.pinned_head && !has_experts() ? " and the output matrix" : "") +
                     " in memory (" + mib_text(plan_.pinned_bytes) + ")";
  if (has_experts()) text = "the experts of " + text + ", and all that is no expert";
  if (plan_.streamed_bytes == 0) return text;
  text += ", " + mib_text(plan_.streamed_bytes) +
          (has_experts() ? " of others, of which a pass reads those that its rows go to, through "
                         : " streamed a pass through ") +
          mib_text(plan_.ring_bytes) + " of buffers, " + layers_->description();
  if (bandwidth_ > 0) {
    char rate[64];
    std::snprintf(rate, sizeof rate, ", emulated flash of %.0f MB/s", bandwidth_ / 1e6);
    text += rate;
  }
  return text;
}

}  // namespace outrider
