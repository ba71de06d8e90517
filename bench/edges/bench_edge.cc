// SPDX-License-Identifier: Apache-2.0
#include "bench/edges/bench_edge.h"

#include <algorithm>
#include <utility>

#include "common/drafting/drafter.h"
#include "common/model/loader/loader.h"
#include "edge_client/shell/runner.h"

namespace outrider {
namespace {

constexpr int kWorkers = 4;              // hypotheses that one step of the draft serves
constexpr std::size_t kTreeNodes = 256;  // and so slots of the draft's cache, beyond the text

class NoText final : public AnswerText {
 public:
  Update push(TokenId) override { return {}; }
  std::string finish() override { return ""; }
};

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
  const auto capacity =
      static_cast<std::int32_t>(max_positions + static_cast<Position>(kTreeNodes));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<DraftEngine> engine,
                            DraftEngine::create(*model, clock, capacity));
  return std::unique_ptr<BenchEdge>(
      new BenchEdge(std::move(model), std::move(engine), tokenizer, max_positions, clock));
}

BenchEdge::BenchEdge(std::unique_ptr<Model> draft, std::unique_ptr<DraftEngine> engine,
                     const Tokenizer& tokenizer, Position max_positions, Clock& clock)
    : draft_(std::move(draft)),
      worker_(std::move(engine)),
      tokenizer_(tokenizer),
      max_positions_(max_positions),
      clock_(clock) {}

Result<BenchAnswer> BenchEdge::decode(Verifier& verifier, const BenchRequest& request) {
  const bool drafts = request.draft_length > 0;
  Drafter drafter({.max_positions = max_positions_,
                   .vocab_size = draft_->info().vocab_size,
                   .workers = kWorkers,
                   .max_nodes = kTreeNodes});
  DecodingOptions decoding;
  decoding.strategy = drafts ? request.strategy : Strategy::kAr;
  decoding.optimize = request.optimize;
  decoding.gamma = std::max(request.draft_length, 1);
  decoding.tokenizer_hash = tokenizer_.content_hash();
  decoding.token_bound = tokenizer_.vocab_size();
  decoding.sampling = request.sampling;
  decoding.seed = request.seed;
  decoding.end_position = static_cast<Position>(request.prompt.size()) + request.max_tokens;
  NoText text;
  NoListener listener;
  DecodingSession session(decoding, request.prompt, drafter, text);
  Runner runner(verifier, drafts ? &worker_ : nullptr, clock_, listener);
  const Finish finish = runner.run(session, {.sampling = request.sampling, .seed = request.seed});
  if (!finish.status.ok()) return finish.status.with_context(request.name);
  return BenchAnswer{session.answer(), session.stats()};
}

}  // namespace outrider
