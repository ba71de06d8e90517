// Answers of an edge in this process, by level, for checks.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/generation/generation_config.h"
#include "edge_client/report/answer_record.h"

namespace outrider {

// The models to load, under the names of outrider-edge's flags.
struct LevelAnswersOptions {
  std::string target;
  std::string elastic = {};                  // empty: a pack's own levels, or none
  std::string level = {};                    // the largest that is loaded; empty: all
  std::string draft_level = {}, draft = {};  // at most one of them; both empty: nothing drafts
  std::string dtype = "auto";
  std::uint64_t memory_budget = 0;  // of a pack; 0: all of it stays
  double bandwidth = 0;             // bytes per second of an emulated flash; 0: the disk's
  int threads = 2;
  Position context = 512;
};

struct TimedAnswer {
  AnswerRecord record;
  double took_ms = 0;  // from the request to its end
};

class LevelAnswers final {
 public:
  // Errors: those of EdgeSetup::load().
  static Result<std::unique_ptr<LevelAnswers>> load(const LevelAnswersOptions& options);

  // A prompt of random tokens, which begins as no other one.
  std::vector<TokenId> random_prompt(std::int64_t tokens);
  Result<std::vector<TokenId>> prompt_of(const std::string& text);

  // At temperature 0. level: a name, or empty for the full model.
  Result<TimedAnswer> answer(const std::vector<TokenId>& prompt, const std::string& level,
                             std::int64_t max_tokens);

  // Full first; empty: the target has none.
  const std::vector<ElasticLevel>& levels() const { return levels_; }
  // Null: the target is in memory.
  const FlashModel* flash() const { return setup_->flash(); }

 private:
  class Silent final : public AnswerListener {
   public:
    void on_emit(const Emit&) override {}
    void on_say(const Say&) override {}
    void on_prefill(const PrefillProgress&) override {}
  };

  LevelAnswers() = default;

  GenerationConfig config_;
  Silent listener_;
  std::unique_ptr<EdgeSetup> setup_;
  std::vector<ElasticLevel> levels_;
  std::unique_ptr<Generator> generator_;
  std::mt19937 random_{32};
};

}  // namespace outrider
