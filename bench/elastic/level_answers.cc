// SPDX-License-Identifier: Apache-2.0
#include "bench/elastic/level_answers.h"

#include <utility>

#include "common/serving/conversation/conversation.h"

namespace outrider {
namespace {

GenerationConfig config_of(const LevelAnswersOptions& options) {
  GenerationConfig config;
  config.target = options.target;
  config.elastic = options.elastic;
  config.model = options.draft;
  config.draft_level = options.draft_level;
  if (options.draft.empty() && options.draft_level.empty()) {
    config.draft_source = DraftSource::kNone;
  }
  config.loading.dtype = options.dtype;
  config.loading.threads = options.threads;
  config.flash.memory_budget = options.memory_budget;
  config.flash.bandwidth = options.bandwidth;
  config.state_dir = "none";
  config.answer.wish.level = options.level;
  config.answer.context = options.context;
  const DefaultTrees trees = default_trees(config);
  config.answer.speculation.tree.kind = trees.always;
  return config;
}

}  // namespace

Result<std::unique_ptr<LevelAnswers>> LevelAnswers::load(const LevelAnswersOptions& options) {
  std::unique_ptr<LevelAnswers> self(new LevelAnswers);
  self->config_ = config_of(options);
  OUTRIDER_RETURN_IF_ERROR(validate(self->config_));
  OUTRIDER_ASSIGN_OR_RETURN(self->setup_, EdgeSetup::load(self->config_));
  const GeneratorParts parts = self->setup_->parts();
  if (parts.elastic != nullptr) self->levels_ = parts.elastic->levels();
  self->generator_ = std::make_unique<Generator>(parts, self->listener_);
  return self;
}

std::vector<TokenId> LevelAnswers::random_prompt(std::int64_t tokens) {
  const auto vocab = static_cast<std::uint32_t>(setup_->tokenizer().vocab_size());
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < tokens; ++i) ids.push_back(static_cast<TokenId>(random_() % vocab));
  return ids;
}

Result<std::vector<TokenId>> LevelAnswers::prompt_of(const std::string& text) {
  OUTRIDER_ASSIGN_OR_RETURN(const ChatSource chat, setup_->chat().now());
  OUTRIDER_ASSIGN_OR_RETURN(EncodedPrompt prompt,
                            encode_prompt(setup_->tokenizer(), chat, text, ""));
  return std::move(prompt.ids);
}

Result<TimedAnswer> LevelAnswers::answer(const std::vector<TokenId>& prompt,
                                         const std::string& level, std::int64_t max_tokens) {
  AnswerRequest request{.prompt = {.ids = prompt, .stop_ids = {}}, .config = config_.answer};
  request.config.wish.level = level;
  request.config.text.max_tokens = max_tokens;
  request.config.text.choice.sampling.temperature = 0;
  const SystemClock clock;
  const TimePoint begin = clock.now();
  OUTRIDER_ASSIGN_OR_RETURN(AnswerReport report, generator_->answer(std::move(request), {}));
  const double took = to_ms(clock.now() - begin);
  if (report.record.ids.empty()) return failed_precondition("an answer had no token");
  return TimedAnswer{std::move(report.record), took};
}

}  // namespace outrider
