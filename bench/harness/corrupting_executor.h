// A test hook: one variant's answers end in another token than they should, so that a run can be
// seen to notice.
//
// Thread rule: one thread. Ownership: keeps the executor. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "bench/harness/executor.h"

namespace outrider {

class CorruptingExecutor final : public AnswerExecutor {
 public:
  // plan outlives this.
  CorruptingExecutor(std::unique_ptr<AnswerExecutor> executor, const GridPlan& plan,
                     std::string variant)
      : executor_(std::move(executor)), plan_(plan), variant_(std::move(variant)) {}

  RunClock clock() const override { return executor_->clock(); }
  PromptOrder order() const override { return executor_->order(); }
  std::string link_kind(std::size_t setting) const override {
    return executor_->link_kind(setting);
  }
  Status warm_up() override { return executor_->warm_up(); }
  Result<std::vector<TokenId>> reference(std::size_t prompt, const GridSetting& setting) override {
    return executor_->reference(prompt, setting);
  }
  Status begin(std::size_t setting) override { return executor_->begin(setting); }
  PaceCounts end() override { return executor_->end(); }
  Result<EdgeAnswer> answer(const AnswerJob& job) override {
    Result<EdgeAnswer> answer = executor_->answer(job);
    if (answer.ok() && plan_.variants[job.variant].name == variant_ &&
        !answer->record.ids.empty()) {
      ++answer->record.ids.back();
    }
    return answer;
  }

 private:
  const std::unique_ptr<AnswerExecutor> executor_;
  const GridPlan& plan_;
  const std::string variant_;
};

}  // namespace outrider
