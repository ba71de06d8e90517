// SPDX-License-Identifier: Apache-2.0
#include "bench/edges/bench_edge.h"

#include <algorithm>

#include "bench/harness/prompt_file.h"
#include "common/decoding/drafting/lookup/lookup_model.h"
#include "common/engine/model/loader/loader.h"
#include "common/serving/conversation/chat_template.h"
#include "edge_client/generation/generator.h"

namespace outrider {
namespace {

// A model trained on conversations answers a bare question with its end.
Status encode(const Tokenizer& tokenizer, const std::string& prompt, const std::string& answer,
              BenchPrompt& out) {
  std::vector<TokenId> whole;
  if (tokenizer.chat_templates().empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(out.ids, tokenizer.encode(prompt));
    OUTRIDER_ASSIGN_OR_RETURN(whole, tokenizer.encode(prompt + answer));
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::choose(tokenizer, ""));
    OUTRIDER_ASSIGN_OR_RETURN(out.ids, chat.encode_chat(tokenizer, {{ChatRole::kUser, prompt}}));
    OUTRIDER_ASSIGN_OR_RETURN(
        whole,
        chat.encode_chat(tokenizer, {{ChatRole::kUser, prompt}, {ChatRole::kAssistant, answer}},
                         /*add_generation_prompt=*/false));
  }
  if (answer.empty()) return {};
  // A token may span the border: the answer starts after the common prefix.
  const auto border = std::mismatch(out.ids.begin(), out.ids.end(), whole.begin(), whole.end());
  out.answer.assign(border.second, whole.end());
  return {};
}

}  // namespace

Result<std::vector<BenchPrompt>> read_prompts(const std::string& path, const Tokenizer& tokenizer,
                                              std::size_t limit) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PromptLine> lines, read_prompt_file(path, limit));
  std::vector<BenchPrompt> prompts;
  for (const PromptLine& line : lines) {
    BenchPrompt prompt;
    prompt.name = line.name;
    OUTRIDER_RETURN_IF_ERROR(
        encode(tokenizer, line.prompt, line.answer, prompt).with_context(line.name));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

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
      LocalDraft::create(std::move(model),
                         {.max_positions = max_positions, .workers = kDraftWorkers}, clock));
  return std::unique_ptr<BenchEdge>(new BenchEdge(std::move(draft), tokenizer, clock));
}

Status BenchEdge::guess_beside_by_lookup() {
  OUTRIDER_CHECK(draft_ != nullptr);
  const ModelInfo& draft = draft_->info();
  return draft_->guess_beside(std::make_unique<LookupModel>(
      LookupOptions{.vocab_size = std::max(draft.vocab_size, tokenizer_.vocab_size()),
                    .max_positions = draft.max_positions}));
}

std::unique_ptr<BenchEdge> BenchEdge::without_draft(const Tokenizer& tokenizer, Clock& clock) {
  return std::unique_ptr<BenchEdge>(new BenchEdge(nullptr, tokenizer, clock));
}

Result<BenchAnswer> BenchEdge::decode(Verifier& verifier, const BenchRequest& request) {
  AnswerRequest one;
  one.prompt.ids = request.prompt;
  SpeculationOptions& speculated = one.config.speculation;
  OUTRIDER_CHECK(draft_ != nullptr || request.draft_length == 0);
  speculated.strategy = request.draft_length > 0 ? request.strategy : Strategy::kAr;
  speculated.gamma = std::max(request.draft_length, 1);
  speculated.optimize = request.optimize;
  one.config.text = {.choice = {request.sampling, request.seed, request.settings},
                     .max_tokens = request.max_tokens,
                     .ignore_eos = request.ignore_eos};
  if (draft_ != nullptr)
    draft_->forget();  // answers are compared, so each one starts without a cache
  NoListener listener;
  Generator generator(
      {.tokenizer = tokenizer_, .draft = draft_.get(), .verifiers = verifier, .clock = clock_},
      listener);
  OUTRIDER_ASSIGN_OR_RETURN(AnswerReport report, generator.answer(std::move(one), {}));
  if (!report.finish.status.ok()) return report.finish.status.with_context(request.name);
  return BenchAnswer{std::move(report.record.ids), std::move(report.record.stats)};
}

}  // namespace outrider
