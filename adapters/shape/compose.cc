// SPDX-License-Identifier: Apache-2.0
#include "adapters/shape/compose.h"

#include <map>
#include <memory>

#include "adapters/data/tokenizer_copy.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/format/model_writer.h"
#include "common/engine/model/format/safetensors.h"
#include "common/engine/model/format/tensor_view.h"

namespace outrider {
namespace {

constexpr const char* kLayersFile = "/layers.safetensors";

bool is_of_target(const TensorSpec& spec) {
  return spec.part == ModelPart::kEmbedding || spec.part == ModelPart::kHead;
}

// The tensors of layers.safetensors, checked against the draft's config.
Result<std::map<std::string, TensorView>> layer_tensors(const MappedFile& file,
                                                        const ModelConfig& config,
                                                        const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<SafetensorsEntry> entries,
                            parse_safetensors(file.bytes(), path));
  std::map<std::string, TensorView> tensors;
  for (const SafetensorsEntry& entry : entries) {
    tensors[entry.name] = {entry.dtype, entry.shape, file.bytes().data() + entry.begin,
                           static_cast<std::size_t>(entry.end - entry.begin)};
  }
  for (const TensorSpec& spec : expected_tensors(config)) {
    if (is_of_target(spec)) continue;
    const auto found = tensors.find(spec.name);
    if (found == tensors.end()) return data_loss(path + ": " + spec.name + " is missing");
    if (found->second.shape != spec.shape) {
      return data_loss(path + ": " + spec.name + " has another shape than config.json says");
    }
  }
  return tensors;
}

Status check_fits(const ModelConfig& draft, const ModelFiles& target) {
  const ModelConfig& config = target.config;
  if (draft.hidden_size == config.hidden_size && draft.vocab_size == config.vocab_size &&
      draft.tied_embeddings == config.tied_embeddings) {
    return {};
  }
  return invalid_argument(
      "the draft was made for a target of width " + std::to_string(draft.hidden_size) + " and " +
      std::to_string(draft.vocab_size) + " tokens; " + target.name + " has width " +
      std::to_string(config.hidden_size) + " and " + std::to_string(config.vocab_size) +
      " tokens. Remedy: the target that it was trained for");
}

}  // namespace

Status write_draft_layers(const std::string& directory, const ModelConfig& config,
                          std::vector<TensorBytes> tensors) {
  OUTRIDER_RETURN_IF_ERROR(write_config(directory, config, "bfloat16"));
  return write_safetensors(directory + kLayersFile, std::move(tensors));
}

Status compose_draft(const std::string& target, const std::string& layers, const std::string& out) {
  OUTRIDER_ASSIGN_OR_RETURN(const ModelConfig config, load_config_json(layers));
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(target, {}));
  OUTRIDER_RETURN_IF_ERROR(check_fits(config, *files));
  const std::string path = layers + kLayersFile;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::open(path));
  OUTRIDER_ASSIGN_OR_RETURN(const auto tensors, layer_tensors(*file, config, path));
  OUTRIDER_RETURN_IF_ERROR(
      write_model(out, config, DType::kBF16,
                  [&](const TensorSpec& spec, std::int64_t begin, std::span<float> values) {
                    const TensorView& view =
                        is_of_target(spec) ? files->weights.at(spec.name) : tensors.at(spec.name);
                    widen(view, begin, values);
                  }));
  const Status copied = copy_tokenizer(target, out);
  // A target without a tokenizer gives the draft none.
  return copied.code() == StatusCode::kNotFound ? Status() : copied;
}

Result<std::vector<TokenId>> read_head_tokens(const std::string& path) {
  constexpr std::int64_t kMaxBytes = 32 << 20;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxBytes));
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, path));
  std::vector<TokenId> tokens;
  bool is_list = json.is_array() && !json.empty();
  for (const Json& entry : is_list ? json : Json::array()) {
    is_list = is_list && entry.is_number_unsigned() && entry.get<std::uint64_t>() < 1 << 24 &&
              (tokens.empty() || entry.get<TokenId>() > tokens.back());
    if (!is_list) break;
    tokens.push_back(entry.get<TokenId>());
  }
  if (is_list) return tokens;
  return invalid_argument(path + ": must be a non-empty JSON list of ascending tokens; entry " +
                          std::to_string(tokens.size()) +
                          " is wrong. Remedy: make it with `outrider-train shortlist`");
}

}  // namespace outrider
