// SPDX-License-Identifier: Apache-2.0
#include "edge_client/doctor/trial_answers.h"

#include <fmt/core.h>

#include <utility>

#include "common/serving/conversation/conversation.h"

namespace outrider {
namespace {

constexpr std::int64_t kTrialTokens = 64;  // of an answer, unless -n says otherwise
constexpr char kWarmUp[] = "Say hello.";

}  // namespace

Result<TrialAnswers> TrialAnswers::of(EdgeSetup& setup, const std::vector<std::string>& prompts,
                                      std::function<void(const std::string&)> on_line,
                                      std::stop_token stop) {
  OUTRIDER_ASSIGN_OR_RETURN(const ChatSource chat, setup.chat().wait());
  const auto encode = [&](const std::string& text) {
    return encode_prompt(setup.tokenizer(), chat, text, setup.chat().name());
  };
  std::vector<EncodedPrompt> encoded;
  for (const std::string& text : prompts) {
    OUTRIDER_ASSIGN_OR_RETURN(EncodedPrompt prompt, encode(text));
    encoded.push_back(std::move(prompt));
  }
  OUTRIDER_ASSIGN_OR_RETURN(EncodedPrompt warm_up, encode(kWarmUp));
  return TrialAnswers(std::move(encoded), std::move(warm_up), std::move(on_line), std::move(stop));
}

Status TrialAnswers::warm_up(Generator& generator, const AnswerConfig& config,
                             const DraftingWay& way) {
  return report(generator, warm_up_, config, way).status();
}

Result<AnswerReport> TrialAnswers::report(Generator& generator, const EncodedPrompt& prompt,
                                          AnswerConfig config, const DraftingWay& way) {
  if (way.strategy) {
    config.speculation.strategy = *way.strategy;
    config.speculation.gamma = way.gamma;
  }
  if (config.text.max_tokens < 0) config.text.max_tokens = kTrialTokens;
  OUTRIDER_ASSIGN_OR_RETURN(AnswerReport report,
                            generator.answer({.prompt = prompt, .config = config}, stop_));
  const Ending ending = report.finish.ending;
  if (ending == Ending::kCancelled) return cancelled("interrupted");
  if (ending == Ending::kLinkLost || ending == Ending::kFailed) return report.finish.status;
  return report;
}

Result<TrialAnswers::Taken> TrialAnswers::answer(Generator& generator, std::size_t prompt,
                                                 const AnswerConfig& config,
                                                 const DraftingWay& way) {
  OUTRIDER_ASSIGN_OR_RETURN(
      const AnswerReport report,
      this->report(generator, prompts_[prompt % prompts_.size()], config, way));
  for (const Duration time : report.record.stats.round_trips) {
    round_trips_ms_.push_back(to_ms(time));
  }
  records_.push_back(record_of(report));
  const AnswerRecord& record = records_.back();
  const std::optional<double> tpot_ms = record.stats.tpot_ms;
  on_line_(fmt::format("prompt {}: {}: {}\n", prompt + 1, name_of(way),
                       tpot_ms ? fmt::format("{:.4g} ms a token", *tpot_ms) : "came at once"));
  Taken taken{.ids = record.ids, .ms = {}};
  if (tpot_ms) taken.ms = *tpot_ms * static_cast<double>(record.ids.size());
  return taken;
}

Result<std::optional<Trial>> trial_of(const TrialAnswers::Taken& plain,
                                      const TrialAnswers::Taken& drafted, const DraftingWay& way) {
  if (plain.ids != drafted.ids) {
    return data_loss(name_of(way) +
                     " gave another text than plain decoding: a defect of these programs. Remedy: "
                     "--strategy ar, and report it");
  }
  if (!plain.ms || !drafted.ms || *plain.ms <= 0 || *drafted.ms <= 0) return std::optional<Trial>();
  return std::optional(Trial{.plain_ms = *plain.ms, .candidate_ms = *drafted.ms});
}

Status too_few_trials() {
  return failed_precondition(
      "fewer than two answers were longer than one verdict: nothing to compare. Remedy: prompts "
      "(-p) with longer answers, or a larger -n");
}

void TrialAnswers::forget() {
  records_.clear();
  round_trips_ms_.clear();
}

}  // namespace outrider
