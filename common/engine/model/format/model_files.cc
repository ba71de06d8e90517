// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/model_files.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/engine/gguf/find_gguf.h"
#include "common/engine/model/format/fingerprint.h"
#include "common/engine/model/format/gguf_config.h"

namespace outrider {
namespace {

struct ModelSource {
  std::string name;
  ModelConfig config;
  Weights weights;
};

Result<ModelSource> open_gguf(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(GgufFile file, GgufFile::open(path));
  OUTRIDER_ASSIGN_OR_RETURN(ModelConfig config, gguf_config(file.header()));
  OUTRIDER_ASSIGN_OR_RETURN(Weights weights, Weights::from_gguf(std::move(file), config));
  return ModelSource{gguf_name(path), std::move(config), std::move(weights)};
}

Result<ModelSource> open_directory(const std::string& directory) {
  const std::filesystem::path folder(directory);
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) {
    return not_found(directory + ": " + (error ? error.message() : "no such file or directory"));
  }
  if (std::filesystem::exists(folder / "adapter_config.json", error) &&
      !std::filesystem::exists(folder / "config.json", error)) {
    return invalid_argument(directory +
                            ": is a LoRA adapter (adapter_config.json), not a model. Remedy: name "
                            "the directory of the model's weights, with the adapter merged in");
  }
  if (!std::filesystem::exists(folder / "config.json", error)) {
    return not_found(directory + ": there is no config.json or GGUF file" +
                     remedy_without_model(directory));
  }
  OUTRIDER_ASSIGN_OR_RETURN(ModelConfig config, load_config_json(directory));
  OUTRIDER_ASSIGN_OR_RETURN(Weights weights, Weights::open(directory));
  const Status arranged = weights.arrange(config);
  if (!arranged.ok()) return arranged.with_context(directory);
  return ModelSource{last_name(directory), std::move(config), std::move(weights)};
}

}  // namespace

Status limit_context(std::optional<Position> max_context, ModelConfig& config) {
  if (!max_context) return {};
  if (*max_context < 1 || *max_context > config.max_positions) {
    return invalid_argument("a context of " + std::to_string(*max_context) +
                            " tokens: must be from 1 to the model's " +
                            std::to_string(config.max_positions) +
                            " (--max-model-len of outrider-server, -c of outrider-edge)");
  }
  config.max_positions = *max_context;
  return {};
}

Result<std::shared_ptr<const ModelFiles>> load_model_files(const std::string& path,
                                                           const ModelFilesOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<std::string> gguf, find_gguf(path));
  OUTRIDER_ASSIGN_OR_RETURN(ModelSource source, gguf ? open_gguf(*gguf) : open_directory(path));
  if (options.check_finite) {
    const Status finite = source.weights.check_finite();
    if (!finite.ok()) return finite.with_context(path);
  }
  std::string fingerprint = model_fingerprint(source.config, source.weights);
  std::shared_ptr<const ElasticTable> elastic;
  if (!options.elastic.empty()) {
    const QuantMethod method = source.config.quantization.method;
    if (method != QuantMethod::kNone) {
      return failed_precondition("--elastic " + options.elastic + ": the matrices of " + path +
                                 " are stored as " + std::string(to_string(method)) +
                                 ", whose units cannot be reordered. Remedy: the model in f16, "
                                 "bf16 or GGUF, with --dtype int4 or int8");
    }
    OUTRIDER_ASSIGN_OR_RETURN(ElasticTable table,
                              read_elastic_table(options.elastic, source.config, fingerprint));
    source.weights.reorder(source.config, table.order);
    elastic = std::make_shared<const ElasticTable>(std::move(table));
  }
  OUTRIDER_RETURN_IF_ERROR(limit_context(options.max_context, source.config));
  if (options.ignore_eos) source.config.stop_ids.clear();
  return std::make_shared<const ModelFiles>(
      ModelFiles{std::move(source.name), std::move(source.config), std::move(source.weights),
                 std::move(fingerprint), std::move(elastic)});
}

Result<ModelConfig> load_config(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<std::string> gguf, find_gguf(path));
  if (!gguf) return load_config_json(path);
  OUTRIDER_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::open(*gguf));
  return gguf_config(file.header());
}

Status check_vocabulary(const std::string& path, TokenId tokens, TokenId rows) {
  if (tokens <= rows) return {};
  return invalid_argument(
      path + ": its tokenizer has " + std::to_string(tokens) + " tokens, but its embedding only " +
      std::to_string(rows) +
      " rows: a text could contain tokens that the model does not know. Remedy: "
      "the tokenizer that these weights were trained with");
}

std::string folder_of_model(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return path;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace outrider
