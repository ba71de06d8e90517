// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/cpu_model.h"

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>

#include "common/base/thread_pool.h"
#include "common/model/cpu/cpu_kv_cache.h"
#include "common/model/cpu/cpu_pass.h"
#include "common/model/fingerprint.h"

namespace outrider {
namespace {

// To be raised whenever a kernel's bits change.
constexpr const char* kKernelVersion = "1";

constexpr int kMaxThreads = 1024;

ModelInfo describe(const CpuWeights& weights) {
  const ModelFiles& files = *weights.files;
  const ModelConfig& config = files.config;
  ModelInfo info{.name = files.name,
                 .architecture = config.architecture,
                 .fingerprint = files.fingerprint,
                 .arithmetic_id = {},
                 .dtype = weights.dtype,
                 .vocab_size = config.vocab_size,
                 .hidden_size = config.hidden_size,
                 .num_layers = config.num_layers,
                 .max_positions = config.max_positions,
                 .num_parameters = num_parameters(config),
                 .weight_bytes = weights.bytes_per_pass,
                 .stop_ids = config.stop_ids};
  info.arithmetic_id = arithmetic_id({.fingerprint = files.fingerprint,
                                      .dtype = weights.arithmetic,
                                      .kernel_version = kKernelVersion,
                                      .device_class = "cpu"});
  return info;
}

std::string row_name(std::size_t index) {
  return "row " + std::to_string(index);
}

class CpuModel final : public Model {
 public:
  CpuModel(CpuWeights weights, const Kernels& kernels, std::unique_ptr<ThreadPool> pool)
      : weights_(std::move(weights)),
        info_(describe(weights_)),
        pool_(std::move(pool)),
        pass_(weights_, kernels, *pool_) {}

  const ModelInfo& info() const override { return info_; }
  const CpuWeights& weights() const { return weights_; }

  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity) override {
    if (capacity <= 0) {
      return invalid_argument("KV cache of " + std::to_string(capacity) +
                              " slots. Remedy: ask for at least 1");
    }
    const ModelConfig& config = weights_.files->config;
    const std::int64_t slot_stride = config.num_kv_heads * pad_to_lanes(config.head_dim);
    OUTRIDER_ASSIGN_OR_RETURN(
        AnonymousMemory memory,
        AnonymousMemory::make(CpuKvCache::bytes_needed(config.num_layers, slot_stride, capacity),
                              "a KV cache of " + std::to_string(capacity) + " slots",
                              "a shorter context (-c)"));
    return std::unique_ptr<KvCache>(
        std::make_unique<CpuKvCache>(this, slot_stride, capacity, std::move(memory)));
  }

  Status forward(std::span<const Row> rows, PassOutput& out) override {
    OUTRIDER_RETURN_IF_ERROR(check(rows));
    OUTRIDER_RETURN_IF_ERROR(weights_.files->weights.check_unchanged());
    const auto vocab = static_cast<std::size_t>(info_.vocab_size);
    const auto wanted = static_cast<std::size_t>(
        std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.wants_logits; }));
    out.vocab_size = info_.vocab_size;
    out.logits.resize(wanted * vocab);
    float* logits = out.logits.data();
    for (std::size_t begin = 0; begin < rows.size(); begin += CpuPass::kMaxRows) {
      const auto part = rows.subspan(begin, std::min(CpuPass::kMaxRows, rows.size() - begin));
      pass_.run(part, logits);
      for (const Row& row : part) logits += row.wants_logits ? vocab : 0;
    }
    return {};
  }

 private:
  // Everything that could make a pass read or write what it must not, before anything is touched.
  Status check(std::span<const Row> rows) {
    Status status;
    std::size_t checked = 0;
    while (checked < rows.size() && status.ok()) {
      status = check_row(rows, checked);
      if (status.ok()) ++checked;
    }
    for (const Row& row : rows.first(checked)) {
      static_cast<CpuKvCache*>(row.cache)->pass_rows()[static_cast<std::size_t>(row.slot)] = -1;
    }
    return status;
  }

  // Marks the row's slot in its cache's pass_rows() if the row is sound.
  Status check_row(std::span<const Row> rows, std::size_t index) {
    const Row& row = rows[index];
    auto* cache = dynamic_cast<CpuKvCache*>(row.cache);
    if (cache == nullptr || cache->owner() != this) {
      return invalid_argument(row_name(index) + ": the KV cache is not of this model");
    }
    if (row.token < 0 || row.token >= info_.vocab_size) {
      return invalid_argument(row_name(index) + ": token " + std::to_string(row.token) +
                              " is outside the vocabulary of " + std::to_string(info_.vocab_size));
    }
    const KvSlots& slots = cache->slots();
    if (!slots.holds(row.slot)) {
      return invalid_argument(row_name(index) + ": slot " + std::to_string(row.slot) +
                              " is not in use");
    }
    if (slots.is_committed(row.slot)) {
      return invalid_argument(row_name(index) + ": slot " + std::to_string(row.slot) +
                              " is committed");
    }
    if (slots.position(row.slot) >= info_.max_positions) {
      return invalid_argument(row_name(index) + ": position " +
                              std::to_string(slots.position(row.slot)) + " is beyond the model's " +
                              std::to_string(info_.max_positions));
    }
    return mark_row(rows, index, *cache);
  }

  // Rows fill different slots, and parents stand before their children.
  static Status mark_row(std::span<const Row> rows, std::size_t index, CpuKvCache& cache) {
    const Row& row = rows[index];
    std::int32_t& mark = cache.pass_rows()[static_cast<std::size_t>(row.slot)];
    if (mark >= 0) {
      return invalid_argument(row_name(index) + ": slot " + std::to_string(row.slot) +
                              " is also that of " + row_name(static_cast<std::size_t>(mark)));
    }
    const Slot parent = cache.slots().parent(row.slot);
    const auto comes_later = [&](const Row& other) {
      return other.cache == row.cache && other.slot == parent;
    };
    // A parent of this pass has a mark; without one it was filled earlier, or stands too late.
    if (parent != kRootSlot && cache.pass_rows()[static_cast<std::size_t>(parent)] < 0 &&
        std::any_of(rows.begin() + static_cast<std::ptrdiff_t>(index) + 1, rows.end(),
                    comes_later)) {
      return invalid_argument(row_name(index) + ": the row of its parent, slot " +
                              std::to_string(parent) + ", stands after it");
    }
    mark = static_cast<std::int32_t>(index);
    return {};
  }

  const CpuWeights weights_;
  const ModelInfo info_;
  const std::unique_ptr<ThreadPool> pool_;
  CpuPass pass_;
};

int thread_count(int wanted) {
  if (wanted > 0) return wanted;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 64u));
}

}  // namespace

Result<std::unique_ptr<Model>> make_cpu_model(std::shared_ptr<const ModelFiles> files,
                                              const CpuModelOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const ComputeType type, parse_compute_type(options.dtype));
  OUTRIDER_ASSIGN_OR_RETURN(const VectorTarget target, find_vector_target(options.kernel));
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return invalid_argument("threads = " + std::to_string(options.threads) + ". Remedy: 1 to " +
                            std::to_string(kMaxThreads) + ", or 0 for one per CPU");
  }
  const ModelConfig& config = files->config;
  if (config.num_heads / config.num_kv_heads > kMaxSharedQueries) {
    return unimplemented("config.json: num_attention_heads / num_key_value_heads = " +
                         std::to_string(config.num_heads / config.num_kv_heads) +
                         ", more than the cpu backend's " + std::to_string(kMaxSharedQueries));
  }
  const Kernels& kernels = kernels_for(target);
  auto pool = std::make_unique<ThreadPool>(thread_count(options.threads));
  OUTRIDER_ASSIGN_OR_RETURN(
      CpuWeights weights,
      CpuWeightsLoader(kernels, *pool, options.progress).load(std::move(files), type));
  return std::unique_ptr<Model>(
      std::make_unique<CpuModel>(std::move(weights), kernels, std::move(pool)));
}

std::vector<std::span<const std::byte>> cpu_weight_memory(const Model& model) {
  std::vector<std::span<const std::byte>> memory;
  const auto* cpu = dynamic_cast<const CpuModel*>(&model);
  if (cpu == nullptr) return memory;
  const auto add = [&](const LinearWeights& weights) {
    memory.push_back(memory_of(weights.matrix));
  };
  for (const CpuLayer& layer : cpu->weights().layers) {
    for (const LinearWeights* weights :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      add(*weights);
    }
  }
  add(cpu->weights().head);
  return memory;
}

}  // namespace outrider
