// The trial answers of a diagnosis: the same prompts in each way of drafting, timed.
//
// Thread rule: one thread. Ownership: what the constructor takes by reference outlives the object.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "edge_client/doctor/diagnosis.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/generation/generator.h"
#include "edge_client/report/answer_record.h"

namespace outrider {

// Answers are not shown, what goes wrong is.
class QuietListener final : public AnswerListener {
 public:
  explicit QuietListener(AnswerListener& shown) : shown_(shown) {}
  void on_emit(const Emit& /*emit*/) override {}
  void on_say(const Say& say) override {
    if (say.level != Say::Level::kInfo) shown_.on_say(say);
  }
  void on_prefill(const PrefillProgress& /*progress*/) override {}

 private:
  AnswerListener& shown_;
};

class TrialAnswers final {
 public:
  // The figures of one answer.
  struct Taken {
    std::vector<TokenId> ids;
    std::optional<double> ms;  // of its tokens, ms; nothing: it came at once
  };

  // Takes these texts as prompts of this setup's target. on_line: gets a line for each answer.
  static Result<TrialAnswers> of(EdgeSetup& setup, const std::vector<std::string>& prompts,
                                 std::function<void(const std::string&)> on_line,
                                 std::stop_token stop);

  std::size_t prompts() const { return prompts_.size(); }
  std::span<const TokenId> ids_of(std::size_t prompt) const { return prompts_[prompt].ids; }
  const std::stop_token& stop() const { return stop_; }
  // Gives on_line a line beside those of answers.
  void note(const std::string& line) const { on_line_(line); }

  // To a text that is none of the prompts, as look-up finds again what it has answered. Not counted
  // and without a line.
  Status warm_up(Generator& generator, const AnswerConfig& config, const DraftingWay& way);

  // CANCELLED after a stop; else why the answer failed. config: except for the way's part.
  Result<Taken> answer(Generator& generator, std::size_t prompt, const AnswerConfig& config,
                       const DraftingWay& way);

  // Figures of the answers since forget(), without warm-ups: records, and round trips of passes
  // that were asked for.
  const std::vector<AnswerRecord>& records() const { return records_; }
  const std::vector<double>& round_trips_ms() const { return round_trips_ms_; }
  void forget();

 private:
  TrialAnswers(std::vector<EncodedPrompt> prompts, EncodedPrompt warm_up,
               std::function<void(const std::string&)> on_line, std::stop_token stop)
      : prompts_(std::move(prompts)),
        warm_up_(std::move(warm_up)),
        on_line_(std::move(on_line)),
        stop_(std::move(stop)) {}

  Result<AnswerReport> report(Generator& generator, const EncodedPrompt& prompt,
                              AnswerConfig config, const DraftingWay& way);

  const std::vector<EncodedPrompt> prompts_;
  const EncodedPrompt warm_up_;
  const std::function<void(const std::string&)> on_line_;
  const std::stop_token stop_;
  std::vector<AnswerRecord> records_;
  std::vector<double> round_trips_ms_;
};

// The same answer without and with a draft; nothing if one of them came at once. DATA_LOSS: they
// are two texts.
Result<std::optional<Trial>> trial_of(const TrialAnswers::Taken& plain,
                                      const TrialAnswers::Taken& drafted, const DraftingWay& way);
Status too_few_trials();

}  // namespace outrider
