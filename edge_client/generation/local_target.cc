// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/local_target.h"

#include <cstdio>
#include <utility>

#include "common/exits/find_exits.h"
#include "common/model/cpu/cpu_model.h"
#include "common/model/format/model_files.h"
#include "common/model/loader/loader.h"
#include "edge_client/flash/make_pack.h"

namespace outrider {
namespace {

// Whether the edge may ask its verifier for exit reports: plain decoding and plain drafting never.
bool wants_exits(const GenerationConfig& config) {
  return wants_draft(config) && strategy_of(config.answer) != Strategy::kSd;
}

// What the draft takes of a memory budget.
Result<std::uint64_t> draft_bytes(const GenerationConfig& config, Position context) {
  if (!wants_draft(config)) return 0;
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(config.model, {}));
  const ModelConfig& draft = files->config;
  OUTRIDER_ASSIGN_OR_RETURN(const std::int64_t kv, cpu_kv_bytes(draft, config.kv_dtype, context));
  const std::int64_t weights =
      config.dtype == "auto" ? files->weights.num_bytes() : 4 * num_parameters(draft);
  return static_cast<std::uint64_t>(kv + weights);
}

Result<std::unique_ptr<FlashModel>> open_flash(const GenerationConfig& config, Clock& clock) {
  FlashOptions options;
  options.memory_budget = config.memory_budget;
  options.bandwidth = config.flash_bandwidth;
  options.kv_dtype = config.kv_dtype;
  options.threads = config.threads;
  if (config.answer.context > 0) options.max_context = config.answer.context;
  if (options.memory_budget > 0) {
    OUTRIDER_ASSIGN_OR_RETURN(const ModelPack pack,
                              ModelPack::open(config.target, options.max_context));
    OUTRIDER_ASSIGN_OR_RETURN(options.other_bytes,
                              draft_bytes(config, pack.config().max_positions));
  }
  return FlashModel::open(config.target, options, clock);
}

Result<std::unique_ptr<Model>> open_resident(const GenerationConfig& config) {
  LoadOptions options;
  options.directory = config.target;
  options.dtype = config.dtype;
  options.kv_dtype = config.kv_dtype;
  options.cache_dir = config.cache_dir;
  options.threads = config.threads;
  if (config.answer.context > 0) options.max_context = config.answer.context;
  Result<std::unique_ptr<Model>> model = load_model(options);
  if (!model.ok()) return model.status().with_context("target " + config.target);
  return model;
}

}  // namespace

Result<Tokenizer> load_model_tokenizer(const std::string& path) {
  if (!ModelPack::is_pack(path)) return Tokenizer::load(path);
  OUTRIDER_ASSIGN_OR_RETURN(const ModelPack pack, ModelPack::open(path));
  return load_tokenizer(pack);
}

Result<std::unique_ptr<LocalTarget>> LocalTarget::load(const GenerationConfig& config,
                                                       Clock& clock) {
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, load_model_tokenizer(config.target));
  std::unique_ptr<LocalTarget> self(new LocalTarget);
  const bool is_pack = ModelPack::is_pack(config.target);
  if (is_pack) {
    OUTRIDER_ASSIGN_OR_RETURN(self->flash_, open_flash(config, clock));
    std::fprintf(stderr, "target: %s\n", self->flash_->about().c_str());
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(self->model_, open_resident(config));
  }
  SchedulerOptions scheduling;
  scheduling.tokenizer_hash = tokenizer.content_hash();
  if (wants_exits(config) && !is_pack) {
    Result<FoundExits> found = find_exits({.model = config.target}, self->model().info());
    if (!found.ok()) return found.status().with_context("target " + config.target);
    self->exits_ = std::move(found->heads);
    scheduling.exits = self->exits_.get();
  }
  self->engine_ = std::make_unique<VerifyEngine>(self->model(), scheduling, clock);
  self->verifier_ = std::make_unique<ResidentVerifier>(*self->engine_);
  return self;
}

}  // namespace outrider
