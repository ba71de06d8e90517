// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/make_pack.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/output_file.h"
#include "common/base/processors.h"
#include "common/base/thread_pool.h"
#include "common/base/vector_targets.h"
#include "common/decoding/exits/find_exits.h"
#include "common/engine/model/cpu/model_pack_writer.h"
#include "common/engine/model/format/architecture.h"
#include "common/engine/text/tokenizer_texts.h"

namespace outrider {
namespace {

// The prefix of the names of a predictor's two files, which are otherwise named as those of exits.
constexpr const char* kPredictor = "predictor/";

// Both files of a folder's adapters, under names that begin so.
Status add_files(const std::string& folder, const std::string& begin,
                 std::vector<PackText>& texts) {
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;
  for (const char* name : {kAdapterIndexFile, kAdapterWeightsFile}) {
    OUTRIDER_ASSIGN_OR_RETURN(std::string content, read_file(folder + "/" + name, kMaxBytes));
    texts.push_back({begin + name, std::move(content)});
  }
  return {};
}

// Adds what there is; whether it reads the output matrix.
Result<bool> add_exits(const std::string& model, const std::string& fingerprint,
                       std::vector<PackText>& texts) {
  const Result<ExitAdapters> adapters = load_adapters_beside(model, fingerprint);
  if (adapters.status().code() == StatusCode::kNotFound) return false;
  if (!adapters.ok()) return adapters.status();
  OUTRIDER_RETURN_IF_ERROR(add_files(folder_of_model(model), "", texts));
  return true;
}

// Adds what the model says of sampling, if it says anything.
Status add_generation_config(const std::string& model, std::vector<PackText>& texts) {
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 20;
  const std::string path = model + "/" + kGenerationConfigFile;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  OUTRIDER_ASSIGN_OR_RETURN(std::string content, read_file(path, kMaxBytes));
  texts.push_back({kGenerationConfigFile, std::move(content)});
  return {};
}

// Adds it if it is asked for; whether it reads the output matrix.
Result<bool> add_predictor(const std::string& folder, const ModelFiles& target,
                           std::vector<PackText>& texts) {
  if (folder.empty()) return false;
  const Result<ExitAdapters> adapters = load_adapters(folder);
  if (!adapters.ok()) return adapters.status().with_context("--predictor " + folder);
  if (adapters->fingerprint != target.fingerprint) {
    return failed_precondition("--predictor " + folder + ": is for the target with fingerprint " +
                               adapters->fingerprint + "; this one (" + target.name + ") has " +
                               target.fingerprint);
  }
  OUTRIDER_RETURN_IF_ERROR(add_files(folder, kPredictor, texts));
  return reads_target_s_head(*adapters);
}

// Those whose files have names that begin so.
Result<std::optional<ExitAdapters>> adapters_of(const ModelPack& pack, const std::string& begin) {
  const auto index = pack.text(begin + kAdapterIndexFile);
  const auto weights = pack.text(begin + kAdapterWeightsFile);
  if (!index || !weights) return std::optional<ExitAdapters>();
  OUTRIDER_ASSIGN_OR_RETURN(
      ExitAdapters adapters,
      parse_adapters(*index, std::as_bytes(std::span(weights->data(), weights->size())),
                     pack.path()));
  return std::optional<ExitAdapters>(std::move(adapters));
}

}  // namespace

Status make_pack(const PackOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(options.out, kPackFile));
  OUTRIDER_ASSIGN_OR_RETURN(const ComputeType type, parse_compute_type(options.dtype));
  OUTRIDER_ASSIGN_OR_RETURN(const VectorTarget target, find_vector_target("auto"));
  OUTRIDER_ASSIGN_OR_RETURN(const TokenizerTexts tokenizer, read_tokenizer_texts(options.model));
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer loaded, Tokenizer::load(tokenizer));
  if (options.elastic && !options.predictor.empty()) {
    return invalid_argument(
        "--predictor prunes the model that it was trained for, and --elastic reorders it. Remedy: "
        "leave one of them out");
  }
  const std::string table =
      options.elastic ? folder_of_model(options.model) + "/" + kElasticFile : "";
  OUTRIDER_ASSIGN_OR_RETURN(
      std::shared_ptr<const ModelFiles> files,
      load_model_files(options.model, {.check_finite = true, .elastic = table}));
  OUTRIDER_RETURN_IF_ERROR(
      check_vocabulary(options.model, loaded.vocab_size(), files->config.vocab_size));
  const std::string note = conversion_note(*files, type);
  if (!note.empty() && options.notice) options.notice(note);
  std::vector<PackText> texts;
  TokenizerTexts::visit_texts(tokenizer, [&](const char* name, const auto& text) {
    if (text) texts.push_back({name, *text});
  });
  OUTRIDER_RETURN_IF_ERROR(add_generation_config(options.model, texts));
  bool exits_read_head = false;
  if (!options.elastic) {  // exits are of one size
    OUTRIDER_ASSIGN_OR_RETURN(exits_read_head, add_exits(options.model, files->fingerprint, texts));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const bool predictor_reads_head,
                            add_predictor(options.predictor, *files, texts));
  ThreadPool pool(options.threads > 0 ? options.threads : usable_processors());
  OUTRIDER_ASSIGN_OR_RETURN(ModelPackWriter writer, ModelPackWriter::create(options.out));
  OUTRIDER_ASSIGN_OR_RETURN(
      const CpuWeights weights,
      CpuWeightsLoader(kernels_for(target), pool, {"", {}}, options.progress)
          .load_by_layer(std::move(files), type, [&](const CpuWeights& so_far, std::int32_t layer) {
            return writer.add_layer(so_far, layer);
          }));
  return writer.finish(weights,
                       {.texts = texts, .for_exits = exits_read_head || predictor_reads_head});
}

Result<std::optional<ExitAdapters>> load_adapters(const ModelPack& pack) {
  const std::string matrix = weight_name(output_part(pack.config()));
  if (pack.text(kAdapterIndexFile) && pack.files().weights.find(matrix) == nullptr) {
    return data_loss(pack.path() + ": holds early exits, but not " + matrix +
                     ", which they read. Remedy: pack the model again (outrider-edge pack)");
  }
  return adapters_of(pack, "");
}

Result<std::optional<ExitAdapters>> load_predictor(const ModelPack& pack) {
  return adapters_of(pack, kPredictor);
}

Result<GenerationDefaults> load_generation_defaults(const ModelPack& pack) {
  const auto text = pack.text(kGenerationConfigFile);
  if (!text) return GenerationDefaults();
  return parse_generation_defaults(std::string_view(*text),
                                   pack.path() + ": " + kGenerationConfigFile);
}

Result<Tokenizer> load_tokenizer(const ModelPack& pack) {
  TokenizerTexts texts;
  texts.what = pack.path();
  for (const std::string& name : pack.text_names()) {
    if (name.starts_with(std::string(kNamedTemplates) + "/")) texts.named_templates[name];
  }
  TokenizerTexts::visit_texts(texts, [&](const char* name, auto& text) {
    if (const auto found = pack.text(name)) text = std::string(*found);
  });
  return Tokenizer::load(texts);
}

}  // namespace outrider
