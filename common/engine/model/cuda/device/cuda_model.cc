// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/cuda_model.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/processors.h"
#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/elastic_device.h"
#include "common/engine/model/cuda/device/device_kv.h"
#include "common/engine/model/cuda/device/device_pass.h"
#include "common/engine/model/cuda/device/device_upload.h"
#include "common/engine/model/cuda/device/device_weights.h"
#include "common/engine/model/cuda/device/layer_feed.h"
#include "common/engine/model/cuda/device/start_check.h"
#include "common/engine/model/leveled_model.h"
#include "common/engine/model/row_check.h"

namespace outrider::cuda {
namespace {

constexpr int kMaxThreads = 64;
// Beside its context a streamed model's sequence has a tree's rows, and pages that are not full.
constexpr std::int64_t kSpareRows = 192;
constexpr std::int64_t kSparePages = 3;

class CudaModel final : public Model, public ElasticDevice {
 public:
  // The parts in the order in which they need each other.
  struct Parts {
    std::shared_ptr<DeviceApi> device;
    std::unique_ptr<ThreadPool> threads;
    std::unique_ptr<DeviceWeights> weights;
    std::shared_ptr<DeviceKvMemory> kv;
    std::unique_ptr<LayerFeed> feed;  // null: it is not streamed
    std::unique_ptr<DevicePass> pass;
  };

  // device_class: for the ids of its levels.
  CudaModel(Parts parts, const KvLayout& kv, std::string device_class)
      : parts_(std::move(parts)),
        kv_(kv),
        device_class_(std::move(device_class)),
        info_(describe(parts_.weights->about())) {}

  const ModelInfo& info() const override { return info_; }
  DeviceCounts counts() const { return parts_.device->counts(); }

  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return pages_of(this, count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    OUTRIDER_RETURN_IF_ERROR(check_rows(rows, info_, this));
    return run(rows, out, 0);
  }
  Status take_heads(const LayerHeads& heads) override { return parts_.pass->take_heads(heads); }
  Status check_unchanged() const override {
    return parts_.weights->about().files->weights.check_unchanged();
  }

  std::shared_ptr<const ElasticTable> table() const override {
    return parts_.weights->about().files->elastic;
  }
  Result<std::unique_ptr<Model>> make_level(const ElasticLevel& level) override {
    OUTRIDER_RETURN_IF_ERROR(check_levels());
    return leveled(describe(weights_of_level(parts_.weights->about(), level)), {&level, 1});
  }
  Result<std::unique_ptr<Model>> make_leveled_model() override {
    OUTRIDER_RETURN_IF_ERROR(check_levels());
    return leveled(info_, table()->levels);
  }

 private:
  ModelInfo describe(const CpuWeights& weights) const {
    ModelInfo info = describe_model(weights, kv_, device_class_);
    info.most_kv_pages = parts_.kv->pages();
    return info;
  }

  Status check_levels() const {
    if (parts_.device->devices() == 1) return {};
    return unimplemented("levels of " + info_.name + " on " +
                         std::to_string(parts_.device->devices()) +
                         " GPUs: one GPU computes a level. Remedy: one GPU, or no --elastic");
  }

  std::unique_ptr<Model> leveled(ModelInfo info, std::span<const ElasticLevel> levels) {
    std::vector<LeveledModel::RunLevel> runs;
    for (const ElasticLevel& level : levels) {
      runs.emplace_back(
          [this, number = parts_.pass->add_level(level)](
              std::span<const Row> rows, PassOutput& out) { return run(rows, out, number); });
    }
    return std::make_unique<LeveledModel>(
        *this, std::move(info), std::move(runs),
        [this](const Model* owner, std::int32_t count) { return pages_of(owner, count); });
  }

  Result<std::shared_ptr<KvPages>> pages_of(const Model* owner, std::int32_t count) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::int32_t first, parts_.kv->take(count));
    return std::shared_ptr<KvPages>(
        std::make_shared<DeviceKvPages>(owner, count, parts_.kv, first));
  }

  // The pass of rows that were checked. level: DevicePass's number.
  Status run(std::span<const Row> rows, PassOutput& out, std::size_t level) {
    OUTRIDER_RETURN_IF_ERROR(check_unchanged());
    out.vocab_size = info_.vocab_size;
    out.places.clear();
    out.row_logits = nullptr;
    out.chosen.clear();
    if (parts_.pass->can_choose() &&
        std::ranges::any_of(rows, [](const Row& row) { return row.choice != nullptr; })) {
      out.chosen.assign(wanted_in(rows), PassOutput::kNotChosen);
    }
    out.threads = parts_.threads.get();
    out.logits.resize(wanted_in(rows) * static_cast<std::size_t>(info_.vocab_size));
    if (rows.empty()) return {};
    Position longest = 0;
    for (const Row& row : rows) {
      longest = std::max(longest, row.cache->slots().position(row.slot) + 1);
    }
    const auto most = static_cast<std::size_t>(parts_.pass->max_rows(longest));
    const auto told = out.on_layer_done;
    const auto count = static_cast<std::int32_t>((rows.size() + most - 1) / most);
    Status status;
    std::int32_t number = 0;
    for (std::size_t begin = 0, first = 0; status.ok() && begin < rows.size(); ++number) {
      if (told) {  // the layers of all parts count
        out.on_layer_done = [=, &told](std::int32_t done, std::int32_t layers) {
          told(number * layers + done, count * layers);
        };
      }
      const auto part = rows.subspan(begin, begin == 0 ? first_part(rows.size(), most) : most);
      status = run_part(part, first, out, level);
      begin += part.size();
      first += wanted_in(part);
    }
    out.on_layer_done = told;
    return status;
  }

  static std::size_t wanted_in(std::span<const Row> rows) {
    return static_cast<std::size_t>(
        std::ranges::count_if(rows, [](const Row& row) { return row.wants_logits; }));
  }

  // first: the part's first row among those that want logits.
  Status run_part(std::span<const Row> rows, std::size_t first, PassOutput& out,
                  std::size_t level) {
    const std::vector<TokenId>& listed = parts_.weights->about().files->config.head_tokens;
    const auto vocab = static_cast<std::size_t>(info_.vocab_size);
    float* logits = out.logits.data() + first * vocab;
    if (listed.empty()) return parts_.pass->run(rows, first, out, logits, level);
    // The logits of a shortlist go to their tokens' places.
    const std::size_t wanted = wanted_in(rows);
    listed_.resize(wanted * listed.size());
    OUTRIDER_RETURN_IF_ERROR(parts_.pass->run(rows, first, out, listed_.data(), level));
    std::fill_n(logits, wanted * vocab, -std::numeric_limits<float>::infinity());
    const float* from = listed_.data();
    for (std::size_t r = 0; r < wanted; ++r, logits += vocab) {
      for (const TokenId token : listed) logits[token] = *from++;
    }
    return {};
  }

  Parts parts_;
  const KvLayout kv_;
  const std::string device_class_;
  const ModelInfo info_;
  std::vector<float> listed_;
};

// The device class for the arithmetic id, which several devices have together.
Result<std::string> proven_class(DeviceApi& device, const CudaModelOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const StartCheck check, check_kernels(device));
  if (check.different == 0) return std::string("cpu");
  if (options.notice) {
    options.notice("device " + device.facts().name + ": " + std::to_string(check.different) +
                   " of " + std::to_string(check.outputs) +
                   " numbers differ from the CPU's, first in " + check.first +
                   ". It computes with an arithmetic of its own, so no CPU continues its texts");
  }
  return device.facts().device_class;
}

int thread_count(int wanted) {
  if (wanted > 0) return std::min(wanted, kMaxThreads);
  return std::min(usable_processors(), 64);
}

}  // namespace

Result<std::unique_ptr<Model>> make_cuda_model(std::shared_ptr<const ModelFiles> files,
                                               std::unique_ptr<DeviceApi> device,
                                               const CudaModelOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(check_llama_blocks(files->config, "device cuda"));
  OUTRIDER_ASSIGN_OR_RETURN(const ComputeType type, parse_compute_type(options.dtype));
  OUTRIDER_ASSIGN_OR_RETURN(const KvLayout kv, kv_layout(files->config, options.kv_dtype));
  const std::string note = conversion_note(*files, type);
  if (!note.empty() && options.notice) options.notice(note);
  if (options.kv_bytes < 0) {
    return invalid_argument("kv_bytes = " + std::to_string(options.kv_bytes) +
                            ". Remedy: at least 0");
  }
  CudaModel::Parts parts;
  parts.device = std::move(device);
  DeviceApi& api = *parts.device;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string device_class, proven_class(api, options));
  parts.threads = std::make_unique<ThreadPool>(thread_count(options.threads));
  const Position max_positions = files->config.max_positions;
  OUTRIDER_ASSIGN_OR_RETURN(
      DeviceWeights weights,
      DeviceWeights::load(api, std::move(files), type, *parts.threads, options.progress));
  parts.weights = std::make_unique<DeviceWeights>(std::move(weights));
  const DeviceSplit split(parts.weights->about().files->config, api.devices());
  OUTRIDER_ASSIGN_OR_RETURN(parts.kv,
                            DeviceKvMemory::make(parts.device, kv, split, options.kv_bytes));
  OUTRIDER_ASSIGN_OR_RETURN(
      parts.pass, DevicePass::make(api, *parts.weights, *parts.kv, *parts.threads, max_positions));
  return std::unique_ptr<Model>(std::make_unique<CudaModel>(std::move(parts), kv, device_class));
}

Result<DeviceNeeds> needs_of_streamed(const CpuWeights& weights, const std::string& kv_dtype) {
  const ModelConfig& config = weights.files->config;
  OUTRIDER_RETURN_IF_ERROR(check_llama_blocks(config, "device cuda"));
  if (weights.files->elastic != nullptr) {
    return unimplemented(
        "device cuda: does not compute a pack that lies level by level. Remedy: --device cpu, or a "
        "pack made without --elastic");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const KvLayout kv, kv_layout(config, kv_dtype));
  const std::int64_t rows = std::int64_t{config.max_positions} + kSpareRows;
  DeviceNeeds needs;
  needs.keys_and_values =
      static_cast<std::uint64_t>((rows / KvPages::kRows + kSparePages) * kv.page_bytes());
  needs.scratch = static_cast<std::uint64_t>(DevicePass::streamed_bytes(weights));
  needs.buffers = static_cast<std::uint64_t>(LayerFeed::buffers_bytes(weights));
  Status readable = check_readable(weights.head.matrix);
  for (const CpuLayer& layer : weights.layers) {
    visit_matrices(layer, [&readable](const LinearWeights& linear) {
      if (readable.ok()) readable = check_readable(linear.matrix);
    });
    needs.layers.push_back(static_cast<std::uint64_t>(LayerFeed::layer_bytes(layer)));
  }
  needs.layers.push_back(static_cast<std::uint64_t>(LayerFeed::head_bytes(weights.head)));
  OUTRIDER_RETURN_IF_ERROR(readable);
  return needs;
}

Result<std::unique_ptr<Model>> make_streamed_cuda_model(LayerSource source,
                                                        std::unique_ptr<DeviceApi> device,
                                                        const CudaModelOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(needs_of_streamed(source.weights, options.kv_dtype).status());
  if (device->devices() > 1) {
    return unimplemented("device cuda: one GPU computes what is streamed, and --gpus names " +
                         std::to_string(device->devices()) + ". Remedy: one of them");
  }
  const std::shared_ptr<const ModelFiles> files = source.weights.files;
  const ModelConfig& config = files->config;
  OUTRIDER_ASSIGN_OR_RETURN(const KvLayout kv, kv_layout(config, options.kv_dtype));
  CudaModel::Parts parts;
  parts.device = std::move(device);
  DeviceApi& api = *parts.device;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string device_class, proven_class(api, options));
  parts.threads = std::make_unique<ThreadPool>(thread_count(options.threads));
  OUTRIDER_ASSIGN_OR_RETURN(DeviceWeights weights,
                            DeviceWeights::without_matrices(api, std::move(source.weights)));
  parts.weights = std::make_unique<DeviceWeights>(std::move(weights));
  OUTRIDER_ASSIGN_OR_RETURN(parts.feed, LayerFeed::open(api, *parts.weights, source.kept_layers,
                                                        source.open, *parts.threads));
  OUTRIDER_ASSIGN_OR_RETURN(
      parts.kv, DeviceKvMemory::make(parts.device, kv, DeviceSplit(config, 1), options.kv_bytes));
  OUTRIDER_ASSIGN_OR_RETURN(parts.pass,
                            DevicePass::make(api, *parts.weights, *parts.kv, *parts.threads,
                                             config.max_positions, parts.feed.get()));
  return std::unique_ptr<Model>(std::make_unique<CudaModel>(std::move(parts), kv, device_class));
}

DeviceCounts device_counts(const Model& model) {
  const auto* cuda = dynamic_cast<const CudaModel*>(&model);
  return cuda != nullptr ? cuda->counts() : DeviceCounts();
}

}  // namespace outrider::cuda
