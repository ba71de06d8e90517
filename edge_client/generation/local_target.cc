// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/local_target.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>

#include "common/base/files.h"
#include "common/decoding/exits/adapter_heads.h"
#include "common/decoding/exits/find_exits.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/devices/device_models.h"
#include "common/engine/model/format/elastic_table.h"
#include "common/engine/model/format/model_files.h"
#include "edge_client/flash/make_pack.h"
#include "edge_client/flash/memory_plan.h"

namespace outrider {
namespace {

// How long a pass of so many rows may take on the slowest flash and cores.
constexpr Duration kPassLimit = std::chrono::minutes(2);
constexpr Position kRowsOfPassLimit = 256;
// Spare rows of keys and values, for a tree and for pages that are not full.
constexpr std::int64_t kSpareRows = 192;

// Whether the edge may ask its verifier for exit reports, or an exit prunes.
bool wants_exits(const GenerationConfig& config) {
  if (config.prune_below > 0) return true;
  const Strategy strategy = config.answer.speculation.chosen();
  return wants_draft(config) && (strategy == Strategy::kFsd || strategy == Strategy::kMirror);
}

// Whether exits would be evidence for what a tree drafts while its pass is under way.
bool leads_tree(const GenerationConfig& config) {
  const SpeculationOptions offline = offline_speculation(config.answer);
  return wants_draft(config) && offline.tree.kind == TreeKind::kOutrider && offline.tree.exits &&
         offline.provisional.value_or(true);
}

// What --predictor names, or else the pack carries; nothing if neither.
Result<std::optional<ExitAdapters>> predictor_for(const GenerationConfig& config,
                                                  const ModelPack& pack) {
  if (config.predictor.empty()) return load_predictor(pack);
  OUTRIDER_ASSIGN_OR_RETURN(ExitAdapters adapters, load_adapters(config.predictor));
  return std::optional<ExitAdapters>(std::move(adapters));
}

std::uint64_t bytes_of(const Result<std::optional<ExitAdapters>>& adapters) {
  return adapters.ok() && *adapters ? adapter_heads_bytes(**adapters) : 0;
}

// The part of a memory budget that early exits and a predictor take. 0: there are none that could
// be used; set_exits() says why.
std::uint64_t exit_bytes(const GenerationConfig& config, const ModelPack& pack) {
  const std::uint64_t bytes = bytes_of(load_adapters(pack));
  return config.prune_below == 0 ? bytes : bytes + bytes_of(predictor_for(config, pack));
}

// The part of a memory budget that the draft takes.
Result<std::uint64_t> draft_bytes(const GenerationConfig& config, const ModelConfig& target) {
  const Position context = target.max_positions;
  if (!drafts_by_model(config)) return 0;
  if (!config.draft_level.empty()) {  // its weights are the target's
    OUTRIDER_ASSIGN_OR_RETURN(const std::int64_t kv,
                              cpu_kv_bytes(target, config.loading.kv_dtype, context));
    return static_cast<std::uint64_t>(kv);
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(config.model, {}));
  const ModelConfig& draft = files->config;
  OUTRIDER_ASSIGN_OR_RETURN(const std::int64_t kv,
                            cpu_kv_bytes(draft, config.loading.kv_dtype, context));
  const std::int64_t weights =
      config.loading.dtype == "auto" ? files->weights.num_bytes() : 4 * num_parameters(draft);
  return static_cast<std::uint64_t>(kv + weights);
}

Result<ModelPack> open_pack(const GenerationConfig& config) {
  std::optional<Position> context;
  if (config.answer.context > 0) context = config.answer.context;
  return ModelPack::open(local_target_of(config), context);
}

// Whether the pack's levels may answer: beside a server the full model stands in for that, if no
// level is named.
bool has_levels(const GenerationConfig& config, const ModelPack& pack) {
  const bool is_asked = mode_of(config) == Mode::kOffline || !config.answer.wish.level.empty();
  return pack.elastic() != nullptr && is_asked;
}

// The largest level that answers need; empty: any may be asked for.
Result<std::string> largest_level(const LevelWish& wish, const ElasticTable& table) {
  OUTRIDER_ASSIGN_OR_RETURN(const LevelCourse course, parse_level_course(wish.level));
  if (course.first.empty() || course.first == "auto") return std::string();
  OUTRIDER_ASSIGN_OR_RETURN(const ElasticLevel* largest, find_level(table, course.first));
  for (const LevelCourse::Part& part : course.then) {
    OUTRIDER_ASSIGN_OR_RETURN(const ElasticLevel* level, find_level(table, part.level));
    largest = std::min(largest, level);  // the larger ones come first
  }
  return largest->name;
}

Result<FlashOptions> flash_options(const GenerationConfig& config, const ModelPack& pack) {
  FlashOptions options = config.flash;
  options.kv_dtype = config.loading.kv_dtype;
  options.threads = config.loading.threads;
  if (config.loading.device != "cpu") options.device = streaming_device(config.loading);
  if (has_levels(config, pack)) {
    options.resident_level = config.draft_level;
    OUTRIDER_ASSIGN_OR_RETURN(options.level, largest_level(config.answer.wish, *pack.elastic()));
  }
  if (options.memory_budget == 0) return options;
  OUTRIDER_ASSIGN_OR_RETURN(options.other_bytes, draft_bytes(config, pack.config()));
  if (wants_exits(config) && pack.elastic() == nullptr)
    options.other_bytes += exit_bytes(config, pack);
  return options;
}

// Whether exits may lead the tree of a streamed target. A layer in their place brings more
// (docs/trees.md), so they get what the layers leave over. Where all layers stay in memory, nothing
// is waited for.
bool exits_fit(const FlashModel& flash, std::uint64_t budget) {
  const std::uint64_t exits = bytes_of(load_adapters(flash.pack()));
  if (exits == 0 || flash.plan().streamed_bytes == 0) return false;
  if (flash.plan().total_bytes + exits <= budget) return true;
  std::fprintf(stderr,
               "exits: OFF for --tree-exits because their %s fit in no memory that the layers "
               "leave over\n",
               mib_text(exits).c_str());
  return false;
}

Result<std::unique_ptr<FlashModel>> open_flash(ModelPack pack, const GenerationConfig& config,
                                               Clock& clock, ComputeGate* gate) {
  OUTRIDER_ASSIGN_OR_RETURN(FlashOptions options, flash_options(config, pack));
  options.gate = gate;
  return FlashModel::open(std::move(pack), options, clock);
}

// A table that lies beside a model changes nothing by itself. It names the model that it is for.
void say_of_table(const GenerationConfig& config, const Model& target) {
  const std::string table = folder_of_model(local_target_of(config)) + "/" + kElasticFile;
  if (!config.elastic.empty()) return;
  const Result<std::string> text = read_file(table, kMaxElasticFileBytes);
  if (!text.ok() || text->find(target.info().fingerprint) == std::string::npos) return;
  std::fprintf(stderr, "target: has levels, which --elastic %s turns on\n", table.c_str());
}

Result<std::unique_ptr<Model>> open_resident(const GenerationConfig& config) {
  LoadOptions options = for_device(config.loading, config.loading.device);
  options.directory = local_target_of(config);
  options.elastic = config.elastic;
  if (config.answer.context > 0) options.max_context = config.answer.context;
  options.kv_positions = std::numeric_limits<Position>::max();
  Result<std::unique_ptr<Model>> model = load_model(options, make_device_model);
  if (!model.ok()) return model.status().with_context("target " + local_target_of(config));
  say_of_table(config, **model);
  return model;
}

}  // namespace

Result<Tokenizer> load_model_tokenizer(const std::string& path) {
  const auto load = [&]() -> Result<Tokenizer> {
    if (!ModelPack::is_pack(path)) return Tokenizer::load(path);
    OUTRIDER_ASSIGN_OR_RETURN(const ModelPack pack, ModelPack::open(path));
    return load_tokenizer(pack);
  };
  Result<Tokenizer> tokenizer = load();
  if (tokenizer.ok() && !tokenizer->assumed().empty()) {
    std::fprintf(stderr, "tokenizer: %s: %s\n", path.c_str(), tokenizer->assumed().c_str());
  }
  return tokenizer;
}

Status LocalTarget::check_budget(const GenerationConfig& config) {
  if (config.flash.memory_budget == 0 || !ModelPack::is_pack(local_target_of(config))) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const ModelPack pack, open_pack(config));
  OUTRIDER_RETURN_IF_ERROR(check_pack_levels(config, pack));
  OUTRIDER_ASSIGN_OR_RETURN(const FlashOptions options, flash_options(config, pack));
  return FlashModel::plan_for(pack, options).status();
}

Result<std::unique_ptr<LocalTarget>> LocalTarget::load(const GenerationConfig& config, Clock& clock,
                                                       ComputeGate* gate) {
  std::unique_ptr<LocalTarget> self(new LocalTarget);
  const bool is_pack = ModelPack::is_pack(local_target_of(config));
  bool exits = wants_exits(config);
  bool levels = !config.elastic.empty();
  bool reordered = levels;
  SchedulerOptions scheduling;
  TokenId tokens = 0;  // of the tokenizer
  GenerationDefaults generation;
  if (is_pack) {
    OUTRIDER_ASSIGN_OR_RETURN(ModelPack pack, open_pack(config));
    OUTRIDER_RETURN_IF_ERROR(check_pack_levels(config, pack));
    levels = has_levels(config, pack);
    reordered = pack.elastic() != nullptr;
    OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, load_tokenizer(pack));
    OUTRIDER_ASSIGN_OR_RETURN(generation, load_generation_defaults(pack));
    tokens = tokenizer.vocab_size();
    scheduling.tokenizer_hash = tokenizer.content_hash();
    self->chat_ = chat_source(tokenizer);
    OUTRIDER_ASSIGN_OR_RETURN(self->flash_, open_flash(std::move(pack), config, clock, gate));
    std::fprintf(stderr, "target: %s\n", self->flash_->about().c_str());
    if (!exits && !reordered && leads_tree(config))
      exits = exits_fit(*self->flash_, config.flash.memory_budget);
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(local_target_of(config)));
    OUTRIDER_ASSIGN_OR_RETURN(generation, read_generation_defaults(local_target_of(config)));
    tokens = tokenizer.vocab_size();
    scheduling.tokenizer_hash = tokenizer.content_hash();
    self->chat_ = chat_source(tokenizer);
    OUTRIDER_ASSIGN_OR_RETURN(self->model_, open_resident(config));
  }
  self->take_sampling(config, generation);
  scheduling.template_hash = template_hash(self->chat_);
  OUTRIDER_RETURN_IF_ERROR(
      check_vocabulary(local_target_of(config), tokens, self->model().info().vocab_size));
  scheduling.logits_on_demand = true;
  // A part of a prompt costs a stream of the whole model, and nobody else waits for a turn.
  if (is_pack) {
    const Position most = self->model().info().max_positions;
    scheduling.prefill_chunk = static_cast<std::uint32_t>(most);
    scheduling.pass_limit = kPassLimit * (1 + most / kRowsOfPassLimit);
  }
  if (reordered && exits) {
    std::fprintf(stderr,
                 "exits: OFF because the target has levels: they were trained on one size\n");
    exits = false;
  }
  if (exits) self->set_exits(config, scheduling);
  const ModelInfo& model = self->model().info();
  // One answer at a time. Earlier texts are kept in the room of a second one, which a memory budget
  // does not have.
  scheduling.kv.max_bytes = (is_pack ? 1 : 2) * (std::int64_t{model.max_positions} + kSpareRows) *
                            model.kv_bytes_per_position;
  if (levels) {
    OUTRIDER_ASSIGN_OR_RETURN(
        self->elastic_,
        ElasticTarget::create(self->model(), self->flash_.get(), scheduling, clock));
    std::fprintf(stderr, "target: levels %s\n", self->elastic_->book().about().c_str());
    return self;
  }
  self->engine_ = std::make_unique<VerifyEngine>(self->model(), scheduling, clock);
  self->verifier_ = std::make_unique<ResidentVerifier>(*self->engine_);
  return self;
}

void LocalTarget::take_sampling(const GenerationConfig& config,
                                const GenerationDefaults& generation) {
  if (config.generation_config == GenerationConfigUse::kNone) return;
  sampling_ = generation.sampling;
  if (generation.left_out.empty()) return;
  std::fprintf(stderr, "target: left out of its %s: %s\n", kGenerationConfigFile,
               generation.left_out.c_str());
}

// Exits and pruning save time and change no text: without them, decoding goes on.
void LocalTarget::set_exits(const GenerationConfig& config, SchedulerOptions& scheduling) {
  Result<FoundExits> found = find(config);
  if (found.ok()) {
    exits_ = std::move(found->heads);
    scheduling.exits = exits_.get();
  } else {
    std::fprintf(stderr, "exits: OFF because of target %s: %s\n", local_target_of(config).c_str(),
                 found.status().message().c_str());
  }
  if (config.prune_below == 0) return;
  if (config.loading.device != "cpu") {
    std::fprintf(stderr, "prune: OFF because --device %s cannot end rows\n",
                 config.loading.device.c_str());
    return;
  }
  std::string off;
  Result<std::unique_ptr<ExitHeads>> predictor = find_own_predictor(config);
  if (!predictor.ok()) {
    off = std::string("of ") + (config.predictor.empty() ? "the pack's predictor" : "--predictor") +
          ": " + predictor.status().message();
  } else if (*predictor != nullptr) {
    predictor_ = *std::move(predictor);
    scheduling.predictor = predictor_.get();
  } else if (exits_ == nullptr) {
    off = found.ok() ? "the target has no early exits" : "the target's early exits are off";
  }
  if (off.empty()) {
    scheduling.prune_below = config.prune_below;
  } else {
    std::fprintf(stderr, "prune: OFF because %s\n", off.c_str());
  }
}

Result<std::unique_ptr<ExitHeads>> LocalTarget::find_own_predictor(const GenerationConfig& config) {
  if (flash_ != nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(std::optional<ExitAdapters> adapters,
                              predictor_for(config, flash_->pack()));
    if (!adapters) return std::unique_ptr<ExitHeads>();
    return predictor_of(*std::move(adapters), flash_->pack().files(), model().info());
  }
  if (config.predictor.empty()) return std::unique_ptr<ExitHeads>();
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(local_target_of(config), {}));
  return find_predictor(config.predictor, *files, model().info());
}

Result<FoundExits> LocalTarget::find(const GenerationConfig& config) {
  const ExitSource source{.model = local_target_of(config), .prunes = config.prune_below > 0};
  if (flash_ == nullptr) return find_exits(source, model().info());
  OUTRIDER_ASSIGN_OR_RETURN(std::optional<ExitAdapters> adapters, load_adapters(flash_->pack()));
  if (!adapters) return FoundExits{};
  Result<FoundExits> found =
      exits_of(*std::move(adapters), source, flash_->pack().files(), model().info());
  // Rows of a shortlist were copied from all over the output matrix, which no budget has room for.
  flash_->pack().files().weights.forget_pages();
  return found;
}

}  // namespace outrider
