// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/target.h"

#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/decoding/drafting/vocabulary/byte_vocabulary.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/devices/device_models.h"
#include "common/engine/model/emulated/null_model.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/text/tokenizer.h"
#ifdef OUTRIDER_SERVER_TORCH
#include "common/engine/model/torch/torch_model.h"
#endif

namespace outrider {
namespace {

constexpr std::string_view kNullScheme = "null:";
constexpr const char* kNullTokenizer = "null";  // stands for no tokenizer: there is no text
constexpr Position kNullPositions = 1 << 16;
constexpr std::int32_t kMaxNullVocab = 1 << 20;

// libtorch computes on the first GPU.
Result<std::unique_ptr<Model>> make_server_model(const std::shared_ptr<const ModelFiles>& files,
                                                 const LoadOptions& options) {
#ifdef OUTRIDER_SERVER_TORCH
  if (options.device == "torch-cuda") {
    if (options.gpus.empty()) return make_torch_model(files, options);
    return failed_precondition(
        "--gpus: torch-cuda takes the first GPU. Remedy: no --gpus, or --device cuda");
  }
#endif
  return make_device_model(files, options);
}

Result<LoadedTarget> null_target(std::string_view vocab, const TargetOptions& target_options) {
  if (!target_options.chat_template.empty()) {
    return invalid_argument(
        "--chat-template: the null model has no tokenizer, so it cannot use one");
  }
  if (!target_options.loading.elastic.empty() || !target_options.level.empty()) {
    return invalid_argument("--elastic and --level: the null model has no units to leave out");
  }
  const std::string& exits = target_options.exits.exits;
  if (exits != "auto" && exits != "none") {
    return invalid_argument("--exits " + exits + ": the null model has no layers to exit from");
  }
  if (!target_options.draft_model.empty()) {
    return invalid_argument("--draft-model: the null model has no tokenizer to share with it");
  }
  NullModelOptions options;
  options.max_positions = target_options.loading.max_context.value_or(kNullPositions);
  if (options.max_positions < 1 || options.max_positions > kNullPositions) {
    return invalid_argument("--max-model-len " + std::to_string(options.max_positions) +
                            ": must be 1 to the null model's " + std::to_string(kNullPositions));
  }
  if (!vocab.empty()) {
    const char* end = vocab.data() + vocab.size();
    const auto [rest, error] = std::from_chars(vocab.data(), end, options.vocab_size);
    if (error != std::errc() || rest != end || options.vocab_size < 1 ||
        options.vocab_size > kMaxNullVocab) {
      return invalid_argument("--model null:" + std::string(vocab) +
                              ": the vocabulary must be 1 to " + std::to_string(kMaxNullVocab));
    }
  }
  LoadedTarget target{.model = make_null_model(options), .tokenizer_hash = kNullTokenizer};
  target.about_exits = "none: the null model has no layers";
  return target;
}

// Pruning saves time and does not change the text. Without a fitting predictor the server runs
// without pruning.
Status add_predictor(const TargetOptions& options, LoadedTarget& target) {
  if (options.predictor.empty()) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(options.loading.directory, {}));
  Result<std::unique_ptr<ExitHeads>> found =
      find_predictor(options.predictor, *files, target.model->info());
  target.no_predictor = found.status().message();
  if (found.ok()) target.predictor = *std::move(found);
  return {};
}

Status check_draft_tokenizer(const std::string& draft, const Tokenizer& target) {
  if (draft.empty()) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(draft));
  if (tokenizer.content_hash() == target.content_hash() || have_same_ids(tokenizer, target)) {
    return {};
  }
  return failed_precondition("--draft-model " + draft + ": its tokenizer is " +
                             tokenizer.content_hash() + ", the target's is " +
                             target.content_hash() +
                             ". Remedy: a draft that was trained with the target's tokenizer");
}

// Beside the target, on the same device or on cores of its own, as its files hold it.
Status add_draft(const TargetOptions& options, LoadedTarget& target) {
  if (options.draft_model.empty()) return {};
  LoadOptions loading = options.loading;
  loading.directory = options.draft_model;
  loading.dtype = "auto";
  loading.max_context.reset();
  loading.elastic.clear();  // of the target's units
  if (options.draft_threads > 0) {
    loading = for_device(loading, "cpu");
    loading.threads = options.draft_threads;
  }
  Result<std::unique_ptr<Model>> draft = load_model(loading, make_server_model);
  if (!draft.ok()) return draft.status().with_context("--draft-model");
  target.draft = *std::move(draft);
  return {};
}

// A model without a template, or with an invalid one, still answers edges and plain prompts; chats
// are refused with the reason.
Status set_chat_template(const TargetOptions& options, LoadedTarget& target) {
  target.chat = chat_source(*target.tokenizer);
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<ChatSource> file,
                            source_of_file(target.chat, options.chat_template));
  if (file) {
    target.chat = *file;
  } else {
    target.chat.chosen = options.chat_template;
  }
  const Result<ChatTemplate> chat = ChatTemplate::choose(target.chat, "");
  const Status status = chat.ok() ? chat->end_of_turn(*target.tokenizer).status() : chat.status();
  if (!status.ok() && !options.chat_template.empty()) {
    return status.with_context("--chat-template " + options.chat_template);
  }
  target.about_template =
      status.ok() ? std::string(chat->name()) : "OFF because " + status.message();
  return {};
}

// All sessions are answered by the named level, or each by the one that it chooses.
Status take_levels(const TargetOptions& options, Clock& clock, LoadedTarget& target) {
  if (options.loading.elastic.empty() && options.level.empty()) return {};
  std::unique_ptr<Model> model;
  if (!options.level.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(model, make_level(*target.model, options.level));
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(model, make_leveled_model(*target.model));
    const std::shared_ptr<const ElasticTable> table = elastic_table_of(*target.model);
    const std::vector<ElasticLevel>& levels = table->levels;
    std::vector<std::unique_ptr<Model>> models;
    std::vector<NamedLevel> named;
    for (const ElasticLevel& level : levels) {
      OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> alone, make_level(*target.model, level));
      target.level_models.push_back(alone->info());
      named.push_back({level.name, alone.get()});
      models.push_back(std::move(alone));
    }
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<LevelProfile> profile, measure_levels(named, clock));
    target.levels = std::make_unique<LevelBook>(*table, levels, std::move(profile));
  }
  target.whole = std::exchange(target.model, std::move(model));
  return {};
}

Result<LoadedTarget> directory_target(const TargetOptions& options, Clock& clock) {
  OUTRIDER_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(options.loading.directory));
  OUTRIDER_RETURN_IF_ERROR(check_draft_tokenizer(options.draft_model, tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                            load_model(options.loading, make_server_model));
  OUTRIDER_RETURN_IF_ERROR(check_vocabulary(options.loading.directory, tokenizer.vocab_size(),
                                            model->info().vocab_size));
  LoadedTarget target{.model = std::move(model), .tokenizer_hash = tokenizer.content_hash()};
  target.tokenizer = std::move(tokenizer);
  if (options.generation_config == GenerationConfigUse::kAuto) {
    OUTRIDER_ASSIGN_OR_RETURN(target.generation,
                              read_generation_defaults(options.loading.directory));
  }
  OUTRIDER_RETURN_IF_ERROR(take_levels(options, clock, target));
  OUTRIDER_RETURN_IF_ERROR(set_chat_template(options, target));
  if (target.whole != nullptr &&
      target.whole->info().fingerprint != target.model->info().fingerprint) {
    target.about_exits = "OFF because of --level " + options.level;
    return target;
  }
  ExitSource exits = options.exits;
  exits.model = options.loading.directory;
  OUTRIDER_ASSIGN_OR_RETURN(FoundExits found, find_exits(exits, target.model->info()));
  target.exits = std::move(found.heads);
  target.about_exits = std::move(found.about);
  if (target.exits != nullptr) {
    const Status offered = target.exits->offer_to(*target.model);
    const bool is_on_host = offered.code() == StatusCode::kUnimplemented;
    if (!offered.ok() && !is_on_host)
      target.about_exits += "; computed on the host: " + offered.message();
  }
  OUTRIDER_RETURN_IF_ERROR(add_predictor(options, target));
  OUTRIDER_RETURN_IF_ERROR(add_draft(options, target));
  return target;
}

}  // namespace

ModelInfo with_draft(const LoadedTarget& target) {
  ModelInfo both = target.model->info();
  if (target.draft != nullptr) {
    both.weight_bytes += target.draft->info().weight_bytes;
    both.kv_bytes_per_position += target.draft->info().kv_bytes_per_position;
  }
  return both;
}

Result<LoadedTarget> load_target(const TargetOptions& options, Clock& clock) {
  const std::string& model = options.loading.directory;
  const bool is_null = model.rfind(kNullScheme, 0) == 0;
  Result<LoadedTarget> loaded =
      is_null ? null_target(std::string_view(model).substr(kNullScheme.size()), options)
              : directory_target(options, clock);
  if (loaded.ok() && options.pacer != nullptr) {
    loaded->model = options.pacer->pace(std::move(loaded->model), clock);
  }
  return loaded;
}

}  // namespace outrider
