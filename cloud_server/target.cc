// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/target.h"

#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/model/cpu/cpu_model.h"
#include "common/model/emulated/null_model.h"
#include "common/model/format/model_files.h"
#include "common/text/tokenizer.h"
#ifdef OUTRIDER_SERVER_GPU
#include "common/model/cuda/cuda_device.h"
#include "common/model/cuda/cuda_model.h"
#endif
#ifdef OUTRIDER_SERVER_HOST_CUDA
#include "common/model/cuda/cuda_model.h"
#include "common/model/cuda/host_device.h"
#endif
#ifdef OUTRIDER_SERVER_CUDA
#include "common/model/torch/torch_model.h"
#endif

namespace outrider {
namespace {

constexpr std::string_view kNullScheme = "null:";
constexpr const char* kNullTokenizer = "null";  // stands for no tokenizer: there is no text
constexpr Position kNullPositions = 1 << 16;
constexpr std::int32_t kMaxNullVocab = 1 << 20;

#if defined(OUTRIDER_SERVER_GPU) || defined(OUTRIDER_SERVER_HOST_CUDA)
Result<std::unique_ptr<Model>> on_device(std::shared_ptr<const ModelFiles> files,
                                         Result<std::unique_ptr<cuda::DeviceApi>> device,
                                         const LoadOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(device.status());
  return cuda::make_cuda_model(
      std::move(files), *std::move(device),
      {.dtype = options.dtype,
       .kv_dtype = options.kv_dtype,
       .threads = options.threads,
       .progress = options.progress,
       .notice = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }});
}
#endif

// The devices besides the CPU that this program was built for.
Result<std::unique_ptr<Model>> make_device_model(
    [[maybe_unused]] const std::shared_ptr<const ModelFiles>& files, const LoadOptions& options) {
#ifdef OUTRIDER_SERVER_GPU
  if (options.device == "cuda") return on_device(files, cuda::make_cuda_device(), options);
#endif
#ifdef OUTRIDER_SERVER_HOST_CUDA
  if (options.device == "host-cuda") return on_device(files, cuda::make_host_device(), options);
#endif
#ifdef OUTRIDER_SERVER_CUDA
  if (options.device == "cuda") return make_torch_model(files, options);
#endif
  return failed_precondition("device " + options.device +
                             ": this program was built without it. Remedy: use cpu, or build "
                             "with OUTRIDER_GPU for cuda, with OUTRIDER_TESTS for host-cuda");
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
  if (found.ok()) target.predictor = *std::move(found);
  target.no_predictor = found.status().message();
  return {};
}

Status check_draft_tokenizer(const std::string& draft, const Tokenizer& target) {
  if (draft.empty()) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(draft));
  if (tokenizer.content_hash() == target.content_hash()) return {};
  return failed_precondition("--draft-model " + draft + ": its tokenizer is " +
                             tokenizer.content_hash() + ", the target's is " +
                             target.content_hash() +
                             ". Remedy: a draft that was trained with the target's tokenizer");
}

// Beside the target, on the same device, as its files hold it.
Status add_draft(const TargetOptions& options, LoadedTarget& target) {
  if (options.draft_model.empty()) return {};
  LoadOptions loading = options.loading;
  loading.directory = options.draft_model;
  loading.dtype = "auto";
  loading.max_context.reset();
  loading.elastic.clear();  // of the target's units
  Result<std::unique_ptr<Model>> draft = load_model(loading, make_device_model);
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

// All sessions are answered by one level. Exits were trained on the full model.
Status take_level(const TargetOptions& options, LoadedTarget& target) {
  if (options.level.empty()) return {};
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> level, make_level(*target.model, options.level));
  target.whole = std::exchange(target.model, std::move(level));
  return {};
}

Result<LoadedTarget> directory_target(const TargetOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(options.loading.directory));
  OUTRIDER_RETURN_IF_ERROR(check_draft_tokenizer(options.draft_model, tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                            load_model(options.loading, make_device_model));
  OUTRIDER_RETURN_IF_ERROR(check_vocabulary(options.loading.directory, tokenizer.vocab_size(),
                                            model->info().vocab_size));
  LoadedTarget target{.model = std::move(model), .tokenizer_hash = tokenizer.content_hash()};
  target.tokenizer = std::move(tokenizer);
  OUTRIDER_RETURN_IF_ERROR(take_level(options, target));
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
  OUTRIDER_RETURN_IF_ERROR(add_predictor(options, target));
  OUTRIDER_RETURN_IF_ERROR(add_draft(options, target));
  return target;
}

}  // namespace

Result<LoadedTarget> load_target(const TargetOptions& options, Clock& clock) {
  const std::string& model = options.loading.directory;
  const bool is_null = model.rfind(kNullScheme, 0) == 0;
  Result<LoadedTarget> loaded =
      is_null ? null_target(std::string_view(model).substr(kNullScheme.size()), options)
              : directory_target(options);
  if (loaded.ok() && options.pacer != nullptr) {
    loaded->model = options.pacer->pace(std::move(loaded->model), clock);
  }
  return loaded;
}

}  // namespace outrider
