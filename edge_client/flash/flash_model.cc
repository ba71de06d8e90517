// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/flash_model.h"

#include <algorithm>
#include <cstdio>
#include <future>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/cpu_pass.h"
#include "common/engine/model/format/architecture.h"
#include "edge_client/flash/streamed_experts.h"
#include "edge_client/flash/whole_file_model.h"

namespace outrider {
namespace {

// The program itself, its stacks, tokenizer and messages.
constexpr std::uint64_t kProgramBytes = 48 << 20;

// The activations of a pass over as many rows as the context has, and the logits of the widest
// round.
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

// The output matrix stays: each pass uses it whole. A device pads some matrices.
Result<MemoryPlan> plan_on_device(const ModelPack& pack, const FlashOptions& options,
                                  std::uint64_t budget) {
  const ModelConfig& config = pack.config();
  OUTRIDER_ASSIGN_OR_RETURN(const CpuWeights weights, pack.weights());
  OUTRIDER_ASSIGN_OR_RETURN(const DeviceNeeds needs, options.device->needs(weights));
  MemoryDemand demand;
  std::uint64_t padding = 0, largest = 0;
  for (const StreamSection& section : sections_of(pack)) {
    const std::uint64_t there = needs.layers[section.number];
    padding += there - std::min(there, section.bytes);
    largest = std::max(largest, section.bytes);
    demand.layers.push_back(section.bytes);
  }
  const std::uint64_t head = demand.layers.back();
  demand.layers.pop_back();
  // A section that the device keeps is read before the memory of passes is there.
  const std::uint64_t scratch =
      std::max(needs.scratch + padding, largest - std::min(largest, needs.keys_and_values));
  demand.fixed = {{"the program", kProgramBytes},
                  {"the draft and early exits", options.other_bytes},
                  {"keys and values of " + std::to_string(config.max_positions) + " positions",
                   needs.keys_and_values},
                  {"activations on device " + options.device->name, scratch},
                  {"the output matrix", head}};
  demand.device_buffers = needs.buffers;
  OUTRIDER_ASSIGN_OR_RETURN(MemoryPlan plan, plan_memory(demand, budget));
  plan.pinned_head = true;
  plan.pinned_bytes += head;
  return plan;
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

// How many extents of a layer a level has. name: empty for the full one.
Result<std::size_t> extents_of_level(const ElasticTable& table, const std::string& name) {
  if (name.empty()) return table.levels.size();
  OUTRIDER_ASSIGN_OR_RETURN(const ElasticLevel* level, find_level(table, name));
  return extent_of_level(table, static_cast<std::size_t>(level - table.levels.data())) + 1;
}

// So many levels of every layer stay, and of the rest what fits.
Result<MemoryPlan> plan_with_levels(const ModelPack& pack, MemoryDemand demand, MemoryPlan levels,
                                    bool head_stays, std::uint64_t budget) {
  std::uint64_t resident = 0;
  demand.layers.clear();
  for (std::int64_t i = 0; i < pack.config().num_layers; ++i) {
    const std::uint64_t first = layer_section(pack, i, 0, levels.resident_extents).bytes;
    resident += first;
    demand.layers.push_back(layer_section(pack, i, 0, levels.extents).bytes - first);
  }
  if (resident > 0) {  // an error names it if it has to stay: for the draft
    const std::string& level = level_of_extent(*pack.elastic(), levels.resident_extents - 1).name;
    demand.fixed.push_back({"level " + level + " of every layer, for the draft", resident});
  }
  const std::uint64_t head = head_stays ? std::exchange(demand.head, 0) : 0;
  if (head > 0) demand.fixed.push_back({"the output matrix, for the draft", head});
  OUTRIDER_ASSIGN_OR_RETURN(MemoryPlan plan, plan_memory(demand, budget));
  plan.pinned_bytes += resident + head;
  plan.pinned_head |= head_stays;
  if (levels.resident_extents == levels.extents) plan.pinned_layers = pack.config().num_layers;
  plan.extents = levels.extents;
  plan.resident_extents = levels.resident_extents;
  return plan;
}

// The largest level that fits whole stays in memory: it answers without a read, and every larger
// one reads what it lacks.
Result<MemoryPlan> plan_levels(const ModelPack& pack, const FlashOptions& options,
                               const MemoryDemand& demand, std::uint64_t budget) {
  const ElasticTable& table = *pack.elastic();
  MemoryPlan levels;
  OUTRIDER_ASSIGN_OR_RETURN(levels.extents, extents_of_level(table, options.level));
  const bool drafts = !options.resident_level.empty();
  std::size_t least = 0;
  if (drafts) {
    OUTRIDER_ASSIGN_OR_RETURN(least, extents_of_level(table, options.resident_level));
    if (least >= levels.extents) {
      return invalid_argument("level " + options.resident_level +
                              " cannot draft: it is no smaller than level " +
                              level_of_extent(table, levels.extents - 1).name +
                              ", the largest that answers. Remedy: a smaller --draft-level");
    }
  }
  for (levels.resident_extents = levels.extents;; --levels.resident_extents) {
    Result<MemoryPlan> plan = plan_with_levels(pack, demand, levels, drafts, budget);
    if (plan.ok() || levels.resident_extents == least) return plan;
  }
}

EmbeddingRows embedding_rows(const ModelPack& pack) {
  const TensorView& embedding = pack.files().weights.at(weight_name(ModelPart::kEmbedding));
  const auto rows = static_cast<std::size_t>(pack.config().vocab_size);
  return {.offset = static_cast<std::uint64_t>(embedding.data - pack.base()),
          .bytes = embedding.num_bytes / rows};
}

}  // namespace

Result<MemoryPlan> FlashModel::plan_for(const ModelPack& pack, const FlashOptions& options) {
  const std::uint64_t budget =
      options.memory_budget > 0 ? options.memory_budget : std::numeric_limits<std::uint64_t>::max();
  if (options.device) return plan_on_device(pack, options, budget);
  OUTRIDER_ASSIGN_OR_RETURN(const MemoryDemand demand, demand_of(pack, options));
  if (pack.elastic() != nullptr) return plan_levels(pack, options, demand, budget);
  const std::string& level = options.level.empty() ? options.resident_level : options.level;
  if (!level.empty()) {
    return invalid_argument("level " + printable(level) + ": " + pack.path() +
                            " has no levels. Remedy: outrider-edge pack --elastic");
  }
  return plan_memory(demand, budget);
}

Result<std::unique_ptr<FlashModel>> FlashModel::open(const std::string& path,
                                                     const FlashOptions& options, Clock& clock) {
  OUTRIDER_ASSIGN_OR_RETURN(ModelPack pack, ModelPack::open(path, options.max_context));
  return open(std::move(pack), options, clock);
}

Result<std::unique_ptr<FlashModel>> FlashModel::open(ModelPack pack, const FlashOptions& options,
                                                     Clock& clock) {
  std::unique_ptr<FlashModel> self(new FlashModel(std::move(pack)));
  OUTRIDER_ASSIGN_OR_RETURN(self->plan_, plan_for(self->pack_, options));
  // Beside the reading of what stays in memory.
  std::future<Status> tensors =
      std::async(std::launch::async, [&pack = self->pack_] { return pack.check_tensors(); });
  self->bandwidth_ = options.bandwidth;
  self->kv_dtype_ = options.kv_dtype;
  OUTRIDER_ASSIGN_OR_RETURN(CpuWeights weights, self->pack_.weights());
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                            options.device ? self->on_device(std::move(weights), options, clock)
                                           : self->on_cpu(std::move(weights), options, clock));
  OUTRIDER_ASSIGN_OR_RETURN(self->model_, self->checked(std::move(model)));
  OUTRIDER_RETURN_IF_ERROR(tensors.get());
  return self;
}

Result<std::unique_ptr<Model>> FlashModel::on_cpu(CpuWeights weights, const FlashOptions& options,
                                                  Clock& clock) {
  if (!options.level.empty()) weights = weights_of_level(weights, levels().front());
  const auto open_layers = has_experts() ? &StreamedExperts::open : &StreamedLayers::open;
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<FlashLayers> layers,
      open_layers(pack_, weights, plan_, options.reading, options.bandwidth, clock));
  layers_ = layers.get();
  if (options.gate != nullptr) layers->set_gate(*options.gate);
  if (!has_experts()) by_level_ = static_cast<StreamedLayers*>(layers.get());
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<Model> model,
      make_cpu_model(std::move(weights), std::move(layers),
                     {.kv_dtype = options.kv_dtype, .threads = options.threads}));
  cpu_ = model.get();
  return model;
}

// The cores are free while a device computes, so no gate closes.
Result<std::unique_ptr<Model>> FlashModel::on_device(CpuWeights weights,
                                                     const FlashOptions& options, Clock& clock) {
  device_ = options.device->name;
  const auto open = [&](LayerKeeper& keeper) -> Result<std::unique_ptr<LayerStore>> {
    OUTRIDER_ASSIGN_OR_RETURN(const CpuWeights mapped, pack_.weights());
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<FlashLayers> layers,
                              StreamedLayers::open_beside(pack_, mapped, plan_, options.reading,
                                                          options.bandwidth, clock, keeper));
    layers_ = layers.get();
    return std::unique_ptr<LayerStore>(std::move(layers));
  };
  return options.device->make({std::move(weights), plan_.pinned_layers, open});
}

Result<std::unique_ptr<Model>> FlashModel::checked(std::unique_ptr<Model> model) const {
  return make_whole_file_model(std::move(model), pack_.path(), embedding_rows(pack_));
}

std::span<const ElasticLevel> FlashModel::levels() const {
  const ElasticTable* const table = pack_.elastic();
  if (table == nullptr) return {};
  return std::span(table->levels).last(plan_.extents);
}

Result<std::unique_ptr<Model>> FlashModel::make_level(const ElasticLevel& level) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::size_t extents,
                            extents_of_level(*pack_.elastic(), level.name));
  OUTRIDER_ASSIGN_OR_RETURN(const CpuWeights weights, pack_.weights());
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<Model> model,
      outrider::make_level(*cpu_, level,
                           by_level_->of_level(weights_of_level(weights, level).layers, extents)));
  return checked(std::move(model));
}

Result<std::unique_ptr<Model>> FlashModel::make_level_beside(const ElasticLevel& level,
                                                             int threads) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::size_t extents,
                            extents_of_level(*pack_.elastic(), level.name));
  OUTRIDER_CHECK(extents <= plan_.resident_extents && plan_.pinned_head);
  OUTRIDER_ASSIGN_OR_RETURN(CpuWeights weights, pack_.weights());
  by_level_->point_pinned(weights);
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                            make_cpu_model(weights_of_level(weights, level), nullptr,
                                           {.kv_dtype = kv_dtype_, .threads = threads}));
  return checked(std::move(model));
}

// "level 60 of every layer, the rest of "
std::string FlashModel::levels_text() const {
  if (plan_.resident_extents == 0 || plan_.resident_extents == plan_.extents) return {};
  return "level " + level_of_extent(*pack_.elastic(), plan_.resident_extents - 1).name +
         " of every layer, the rest of ";
}

std::string FlashModel::about() const {
  const std::int64_t layers = pack_.config().num_layers;
  std::string text = levels_text() + std::to_string(plan_.pinned_layers) + " of " +
                     std::to_string(layers) + " layers" +
                     (plan_.pinned_head && !has_experts() ? " and the output matrix" : "") +
                     " in memory (" + mib_text(plan_.pinned_bytes) + ")";
  if (has_experts()) text = "the experts of " + text + ", and all that is no expert";
  if (!device_.empty()) text = "on device " + device_ + ": " + text;
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
