// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/cpu_model.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/processors.h"
#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/cpu_kv_pages.h"
#include "common/engine/model/cpu/cpu_pass.h"
#include "common/engine/model/cpu/elastic_device.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/format/fingerprint.h"
#include "common/engine/model/leveled_model.h"
#include "common/engine/model/row_check.h"

namespace outrider {
namespace {

constexpr int kMaxThreads = 1024;

// Shared by a model and its levels: their kernels, threads, the scratch memory of a pass, and the
// memory that a cache leaves.
struct Computing {
  // The weights' config outlives this.
  Computing(const CpuWeights& weights, const Kernels& its_kernels,
            std::unique_ptr<ThreadPool> its_pool)
      : kernels(its_kernels),
        pool(std::move(its_pool)),
        pass(weights.files->config, weights.quantized, kernels, *pool) {}

  const Kernels& kernels;
  const std::unique_ptr<ThreadPool> pool;
  CpuPass pass;
  std::shared_ptr<SpareKvMemory> spare = std::make_shared<SpareKvMemory>();
};

Result<std::shared_ptr<KvPages>> pages_of(const Model* model, const KvLayout& kv,
                                          std::int32_t count,
                                          const std::shared_ptr<SpareKvMemory>& spare) {
  AnonymousMemory memory = spare->take(count * kv.page_bytes());
  if (memory.is_empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(
        memory,
        AnonymousMemory::make(
            count * kv.page_bytes(),
            "a KV cache of " + std::to_string(std::int64_t{count} * KvPages::kRows) + " slots",
            "a shorter context (--max-model-len of outrider-server, -c of outrider-edge)"));
  }
  return std::shared_ptr<KvPages>(
      std::make_shared<CpuKvPages>(model, kv, count, std::move(memory), spare));
}

class CpuModel final : public Model {
 public:
  // layers: null if all layers are in `weights`.
  CpuModel(CpuWeights weights, std::unique_ptr<LayerStore> layers, const KvLayout& kv,
           const Kernels& kernels, std::unique_ptr<ThreadPool> pool)
      : weights_(std::move(weights)),
        is_resident_(layers == nullptr),
        layers_(layers != nullptr ? std::move(layers) : std::make_unique<ResidentLayers>(weights_)),
        kv_(kv),
        info_(describe_model(weights_, kv, "cpu")),
        computing_(std::make_shared<Computing>(weights_, kernels, std::move(pool))) {}

  // A level of `full`, which outlives it. layers: null if all are in full's weights. pool: its own;
  // null: it computes by full's.
  CpuModel(const CpuModel& full, const ElasticLevel& level, std::unique_ptr<LayerStore> layers,
           std::unique_ptr<ThreadPool> pool)
      : weights_(weights_of_level(full.weights_, level)),
        is_resident_(layers == nullptr),
        layers_(layers != nullptr ? std::move(layers) : std::make_unique<ResidentLayers>(weights_)),
        kv_(full.kv_),
        info_(describe_model(weights_, kv_, "cpu")),
        computing_(pool == nullptr ? full.computing_
                                   : std::make_shared<Computing>(weights_, full.computing_->kernels,
                                                                 std::move(pool))) {}

  const ModelInfo& info() const override { return info_; }
  const CpuWeights& weights() const { return weights_; }
  bool is_resident() const { return is_resident_; }

  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return pages_of(this, kv_, count, computing_->spare);
  }

  Status forward(std::span<const Row> rows, PassOutput& out) override {
    OUTRIDER_RETURN_IF_ERROR(check_rows(rows, info_, this));
    return run(rows, out);
  }
  Status check_unchanged() const override { return weights_.files->weights.check_unchanged(); }
  const KvLayout& kv() const { return kv_; }
  const std::shared_ptr<SpareKvMemory>& spare() const { return computing_->spare; }

  // The pass of rows that were checked.
  Status run(std::span<const Row> rows, PassOutput& out) {
    OUTRIDER_RETURN_IF_ERROR(check_unchanged());
    const auto vocab = static_cast<std::size_t>(info_.vocab_size);
    const auto wanted = static_cast<std::size_t>(
        std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.wants_logits; }));
    out.vocab_size = info_.vocab_size;
    out.logits.resize(wanted * vocab);
    out.places.clear();
    out.row_logits = nullptr;
    return computing_->pass.run({weights_, *layers_}, rows, out);
  }

 private:
  const CpuWeights weights_;
  const bool is_resident_;
  const std::unique_ptr<LayerStore> layers_;
  const KvLayout kv_;
  const ModelInfo info_;
  const std::shared_ptr<Computing> computing_;
};

int thread_count(int wanted) {
  if (wanted > 0) return wanted;
  return std::min(usable_processors(), 64);
}

}  // namespace

namespace {

Status check_computable(const ModelConfig& config, const CpuModelOptions& options) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return invalid_argument("threads = " + std::to_string(options.threads) + ". Remedy: 1 to " +
                            std::to_string(kMaxThreads) + ", or 0 for one per CPU");
  }
  if (config.num_heads / config.num_kv_heads > kMaxSharedQueries) {
    return unimplemented("config.json: num_attention_heads / num_key_value_heads = " +
                         std::to_string(config.num_heads / config.num_kv_heads) +
                         ", more than the cpu backend's " + std::to_string(kMaxSharedQueries));
  }
  return kv_layout(config, options.kv_dtype).status();
}

}  // namespace

ModelInfo describe_model(const CpuWeights& weights, const KvLayout& kv,
                         const std::string& device_class) {
  const ModelFiles& files = *weights.files;
  const ModelConfig& config = files.config;
  ModelInfo info{.name = files.name,
                 .architecture = config.architecture,
                 .fingerprint = files.fingerprint,
                 .arithmetic_id = {},
                 .dtype = weights.dtype,
                 .kv_dtype = kv.is_bf16 ? "bf16" : "f32",
                 .vocab_size = config.vocab_size,
                 .hidden_size = config.hidden_size,
                 .num_layers = config.num_layers,
                 .max_positions = config.max_positions,
                 .num_parameters = num_parameters(config),
                 .weight_bytes = weights.bytes_per_pass,
                 .kv_bytes_per_position = kv.page_bytes() / KvPages::kRows,
                 .stop_ids = config.stop_ids};
  info.arithmetic_id =
      arithmetic_id({.fingerprint = files.fingerprint,
                     .dtype = weights.arithmetic + (kv.is_bf16 ? ", bf16 keys and values" : ""),
                     .kernel_version = kKernelVersion,
                     .device_class = device_class,
                     .order = weights.order});
  if (weights.level == nullptr) return info;
  const std::string id = level_id(*files.elastic, *weights.level);
  info.name += "@" + weights.level->name;
  if (id.empty()) return info;  // the full model's bits
  info.num_parameters -= left_out(config, *weights.level);
  info.fingerprint = level_fingerprint(info.fingerprint, id);
  info.arithmetic_id = level_fingerprint(info.arithmetic_id, id);
  return info;
}

Result<KvLayout> kv_layout(const ModelConfig& config, const std::string& dtype) {
  const KvLayout kv{.layers = config.num_layers,
                    .kv_heads = config.num_kv_heads,
                    .head_stride = pad_to_lanes(config.head_dim),
                    .is_bf16 = dtype == "bf16"};
  if (!kv.is_bf16 && dtype != "f32") {
    return invalid_argument("kv dtype '" + dtype.substr(0, 60) +
                            "' is unknown. Remedy: use f32 or bf16");
  }
  if (kv.head_stride > kMaxHeadStride) {
    return unimplemented("config.json: head_dim = " + std::to_string(config.head_dim) +
                         ", more than the kernels' " + std::to_string(kMaxHeadStride));
  }
  return kv;
}

Result<std::unique_ptr<Model>> make_cpu_model(std::shared_ptr<const ModelFiles> files,
                                              const CpuModelOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const ComputeType type, parse_compute_type(options.dtype));
  OUTRIDER_ASSIGN_OR_RETURN(const VectorTarget target, find_vector_target(options.kernel));
  OUTRIDER_RETURN_IF_ERROR(check_computable(files->config, options));
  const std::string note = conversion_note(*files, type);
  if (!note.empty() && options.notice) options.notice(note);
  const Kernels& kernels = kernels_for(target);
  auto pool = std::make_unique<ThreadPool>(thread_count(options.threads));
  OUTRIDER_ASSIGN_OR_RETURN(
      CpuWeights weights,
      CpuWeightsLoader(kernels, *pool, {options.cache_dir, options.notice}, options.progress)
          .load(std::move(files), type));
  OUTRIDER_ASSIGN_OR_RETURN(const KvLayout kv, kv_layout(weights.files->config, options.kv_dtype));
  return std::unique_ptr<Model>(
      std::make_unique<CpuModel>(std::move(weights), nullptr, kv, kernels, std::move(pool)));
}

Result<std::unique_ptr<Model>> make_cpu_model(CpuWeights weights,
                                              std::unique_ptr<LayerStore> layers,
                                              const CpuModelOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const VectorTarget target, find_vector_target(options.kernel));
  OUTRIDER_RETURN_IF_ERROR(check_computable(weights.files->config, options));
  OUTRIDER_ASSIGN_OR_RETURN(const KvLayout kv, kv_layout(weights.files->config, options.kv_dtype));
  auto pool = std::make_unique<ThreadPool>(thread_count(options.threads));
  return std::unique_ptr<Model>(std::make_unique<CpuModel>(
      std::move(weights), std::move(layers), kv, kernels_for(target), std::move(pool)));
}

namespace {

Status lacks_levels(const Model& full, std::string_view level) {
  return failed_precondition("level " + printable(level) + " of " + full.info().name +
                             ": it was loaded without a level table. Remedy: --elastic, and a "
                             "model in memory");
}

// has_store: the level's layers come from elsewhere than full's memory.
Result<const CpuModel*> elastic_model(Model& full, std::string_view level, bool has_store = false) {
  const auto* cpu = dynamic_cast<const CpuModel*>(&full);
  const bool has_layers = cpu != nullptr && cpu->is_resident() != has_store;
  if (has_layers && cpu->weights().files->elastic != nullptr) return cpu;
  return lacks_levels(full, level);
}

}  // namespace

Result<std::unique_ptr<Model>> make_level(Model& full, std::string_view level) {
  const std::shared_ptr<const ElasticTable> table = elastic_table_of(full);
  if (table == nullptr) return lacks_levels(full, level);
  OUTRIDER_ASSIGN_OR_RETURN(const ElasticLevel* found, find_level(*table, level));
  return make_level(full, *found);
}

Result<std::unique_ptr<Model>> make_level(Model& full, const ElasticLevel& level,
                                          std::unique_ptr<LayerStore> layers) {
  auto* const device = dynamic_cast<ElasticDevice*>(&full);
  if (device != nullptr && device->table() != nullptr) return device->make_level(level);
  OUTRIDER_ASSIGN_OR_RETURN(const CpuModel* cpu,
                            elastic_model(full, level.name, layers != nullptr));
  return std::unique_ptr<Model>(
      std::make_unique<CpuModel>(*cpu, level, std::move(layers), nullptr));
}

Result<std::unique_ptr<Model>> make_level_beside(Model& full, const ElasticLevel& level,
                                                 int threads) {
  OUTRIDER_ASSIGN_OR_RETURN(const CpuModel* cpu, elastic_model(full, level.name));
  return std::unique_ptr<Model>(std::make_unique<CpuModel>(
      *cpu, level, nullptr, std::make_unique<ThreadPool>(thread_count(threads))));
}

Result<std::unique_ptr<Model>> make_leveled_model(Model& full) {
  auto* const device = dynamic_cast<ElasticDevice*>(&full);
  if (device != nullptr && device->table() != nullptr) return device->make_leveled_model();
  OUTRIDER_ASSIGN_OR_RETURN(const CpuModel* cpu, elastic_model(full, "of all sessions"));
  std::vector<LeveledModel::RunLevel> levels;
  for (const ElasticLevel& level : cpu->weights().files->elastic->levels) {
    levels.emplace_back(
        [model = std::make_shared<CpuModel>(*cpu, level, nullptr, nullptr)](
            std::span<const Row> rows, PassOutput& out) { return model->run(rows, out); });
  }
  const auto new_pages = [cpu](const Model* owner, std::int32_t count) {
    return pages_of(owner, cpu->kv(), count, cpu->spare());
  };
  return std::unique_ptr<Model>(
      std::make_unique<LeveledModel>(full, full.info(), std::move(levels), new_pages));
}

std::shared_ptr<const ElasticTable> elastic_table_of(const Model& model) {
  if (const auto* device = dynamic_cast<const ElasticDevice*>(&model)) return device->table();
  const auto* cpu = dynamic_cast<const CpuModel*>(&model);
  return cpu == nullptr ? nullptr : cpu->weights().files->elastic;
}

Result<std::int64_t> cpu_kv_bytes(const ModelConfig& config, const std::string& kv_dtype,
                                  std::int32_t positions) {
  OUTRIDER_ASSIGN_OR_RETURN(const KvLayout kv, kv_layout(config, kv_dtype));
  return (positions + std::int64_t{KvPages::kRows} - 1) / KvPages::kRows * kv.page_bytes();
}

namespace {

// The matrices that a single-row pass reads; none for a model of another backend.
std::vector<const WeightMatrix*> matrices_of(const Model& model) {
  std::vector<const WeightMatrix*> matrices;
  const auto* cpu = dynamic_cast<const CpuModel*>(&model);
  if (cpu == nullptr) return matrices;
  for (const CpuLayer& layer : cpu->weights().layers) {
    visit_matrices(layer, [&matrices](const LinearWeights& weights) {
      for (const WeightMatrix& piece : pieces_of(weights)) matrices.push_back(&piece);
    });
  }
  matrices.push_back(&cpu->weights().head.matrix);
  return matrices;
}

}  // namespace

std::vector<std::span<const std::byte>> cpu_weight_memory(const Model& model) {
  std::vector<std::span<const std::byte>> memory;
  for (const WeightMatrix* matrix : matrices_of(model)) memory.push_back(memory_of(*matrix));
  return memory;
}

std::int64_t cpu_weight_padding(const Model& model) {
  std::int64_t padding = 0;
  for (const WeightMatrix* matrix : matrices_of(model)) padding += padding_of(*matrix);
  return padding;
}

}  // namespace outrider
