// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/make_pack.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/base/vector_targets.h"
#include "common/text/tokenizer_texts.h"

namespace outrider {

Status make_pack(const PackOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const ComputeType type, parse_compute_type(options.dtype));
  OUTRIDER_ASSIGN_OR_RETURN(const VectorTarget target, find_vector_target("auto"));
  OUTRIDER_ASSIGN_OR_RETURN(const TokenizerTexts tokenizer, read_tokenizer_texts(options.model));
  OUTRIDER_RETURN_IF_ERROR(Tokenizer::load(tokenizer).status());
  OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<const ModelFiles> files,
                            load_model_files(options.model, {.check_finite = true}));
  ThreadPool pool(options.threads > 0
                      ? options.threads
                      : static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u)));
  OUTRIDER_ASSIGN_OR_RETURN(const CpuWeights weights,
                            CpuWeightsLoader(kernels_for(target), pool, {"", {}}, options.progress)
                                .load(std::move(files), type));
  std::vector<PackText> texts;
  TokenizerTexts::visit_texts(tokenizer, [&](const char* name, const auto& text) {
    if (text) texts.push_back({name, *text});
  });
  return write_model_pack(options.out, weights, texts);
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
