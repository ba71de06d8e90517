// SPDX-License-Identifier: Apache-2.0
#include "bench/edges/bench_edge.h"

#include <algorithm>
#include <utility>

#include "common/model/loader/loader.h"
#include "edge_client/generation/generator.h"

namespace outrider {
namespace {

class NoListener final : public AnswerListener {
 public:
  void on_emit(const Emit&) override {}
  void on_say(const Say&) override {}
  void on_prefill(const PrefillProgress&) override {}
};

}  // namespace

Result<std::unique_ptr<Model>> load_bench_model(const std::string& directory,
                                                const std::string& dtype, int threads) {
  LoadOptions options;
  options.directory = directory;
  options.dtype = dtype;
  options.threads = threads;
  return load_model(options);
}

Result<std::unique_ptr<BenchEdge>> BenchEdge::create(const std::string& draft,
                                                     const Tokenizer& tokenizer,
                                                     Position max_positions, Clock& clock) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, load_bench_model(draft, "auto", 1));
  return create(std::move(model), tokenizer, max_positions, clock);
}

Result<std::unique_ptr<BenchEdge>> BenchEdge::create(std::unique_ptr<Model> model,
                                                     const Tokenizer& tokenizer,
                                                     Position max_positions, Clock& clock) {
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<LocalDraft> draft,
      LocalDraft::create(std::move(model), {.context = max_positions}, clock));
  return std::unique_ptr<BenchEdge>(new BenchEdge(std::move(draft), tokenizer, clock));
}

Result<BenchAnswer> BenchEdge::decode(Verifier& verifier, const BenchRequest& request) {
  AnswerRequest one;
  one.prompt.ids = request.prompt;
  one.config.strategy = request.draft_length > 0 ? request.strategy : Strategy::kAr;
  one.config.gamma = std::max(request.draft_length, 1);
  one.config.optimize = request.optimize;
  one.config.max_tokens = request.max_tokens;
  one.config.sampling = request.sampling;
  one.config.seed = request.seed;
  draft_->forget();  // answers are compared: each one starts from nothing
  NoListener listener;
  Generator generator(
      {.tokenizer = tokenizer_, .draft = draft_.get(), .verifiers = verifier, .clock = clock_},
      listener);
  OUTRIDER_ASSIGN_OR_RETURN(AnswerReport report, generator.answer(std::move(one), {}));
  if (!report.finish.status.ok()) return report.finish.status.with_context(request.name);
  return BenchAnswer{std::move(report.ids), std::move(report.stats)};
}

}  // namespace outrider
