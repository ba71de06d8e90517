// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/make_pack.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/thread_pool.h"
#include "common/base/vector_targets.h"
#include "common/model/cpu/model_pack_writer.h"
#include "common/model/format/architecture.h"
#include "common/text/tokenizer_texts.h"

namespace outrider {
namespace {

// Whether there are any.
Result<bool> add_adapters(const std::string& model, std::vector<PackText>& texts) {
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;
  const std::string folder = folder_of_model(model);
  const Result<ExitAdapters> adapters = load_adapters(folder);
  if (adapters.status().code() == StatusCode::kNotFound) return false;
  if (!adapters.ok()) return adapters.status();
  for (const char* name : {kAdapterIndexFile, kAdapterWeightsFile}) {
    OUTRIDER_ASSIGN_OR_RETURN(std::string content, read_file(folder + "/" + name, kMaxBytes));
    texts.push_back({name, std::move(content)});
  }
  return true;
}

}  // namespace

Status make_pack(const PackOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const ComputeType type, parse_compute_type(options.dtype));
  OUTRIDER_ASSIGN_OR_RETURN(const VectorTarget target, find_vector_target("auto"));
  OUTRIDER_ASSIGN_OR_RETURN(const TokenizerTexts tokenizer, read_tokenizer_texts(options.model));
  OUTRIDER_RETURN_IF_ERROR(Tokenizer::load(tokenizer).status());
  OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<const ModelFiles> files,
                            load_model_files(options.model, {.check_finite = true}));
  std::vector<PackText> texts;
  TokenizerTexts::visit_texts(tokenizer, [&](const char* name, const auto& text) {
    if (text) texts.push_back({name, *text});
  });
  OUTRIDER_ASSIGN_OR_RETURN(const bool has_exits, add_adapters(options.model, texts));
  ThreadPool pool(options.threads > 0
                      ? options.threads
                      : static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u)));
  OUTRIDER_ASSIGN_OR_RETURN(ModelPackWriter writer, ModelPackWriter::create(options.out));
  OUTRIDER_ASSIGN_OR_RETURN(
      const CpuWeights weights,
      CpuWeightsLoader(kernels_for(target), pool, {"", {}}, options.progress)
          .load_by_layer(std::move(files), type, [&](const CpuWeights& so_far, std::int32_t layer) {
            return writer.add_layer(so_far, layer);
          }));
  return writer.finish(weights, {.texts = texts, .for_exits = has_exits});
}

Result<std::optional<ExitAdapters>> load_adapters(const ModelPack& pack) {
  const auto index = pack.text(kAdapterIndexFile);
  const auto weights = pack.text(kAdapterWeightsFile);
  if (!index || !weights) return std::optional<ExitAdapters>();
  const std::string matrix = weight_name(output_part(pack.config()));
  if (pack.files().weights.find(matrix) == nullptr) {
    return data_loss(pack.path() + ": holds early exits, but not " + matrix +
                     ", which they read. Remedy: pack the model again (outrider-edge pack)");
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      ExitAdapters adapters,
      parse_adapters(*index, std::as_bytes(std::span(weights->data(), weights->size())),
                     pack.path()));
  return std::optional<ExitAdapters>(std::move(adapters));
}

Result<Tokenizer> load_tokenizer(const ModelPack& pack) {
  TokenizerTexts texts;
  texts.what = pack.path();
  TokenizerTexts::visit_texts(texts, [&](const char* name, auto& text) {
    if (const auto found = pack.text(name)) text = std::string(*found);
  });
  return Tokenizer::load(texts);
}

}  // namespace outrider
