// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/grid.h"

#include <cstdio>
#include <map>
#include <tuple>

#include "bench/harness/real_executor.h"
#include "emulation/process/server_process.h"

namespace outrider {
namespace {

// The cells of what finished.
class CellTable final {
 public:
  CellTable(const GridPlan& plan, GridResult& result) : plan_(plan), result_(result) {
    for (const GridSetting& setting : plan.settings) {
      for (const GridVariant& variant : plan.variants) {
        result_.cells.push_back(
            {setting.name, variant.name, variant.strategy, {}, 0, "", 0, variant.gamma});
      }
    }
  }

  void fill() {
    std::map<AnswerJob, const FinishedAnswer*> by_job;
    for (const FinishedAnswer& one : result_.finished) by_job[one.job] = &one;
    const auto repetitions = static_cast<std::size_t>(plan_.repetitions);
    for (std::size_t setting = 0; setting < plan_.settings.size(); ++setting) {
      for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
        for (std::size_t prompt = 0; prompt < plan_.prompts.size(); ++prompt) {
          add_answers(setting, prompt, repetition, by_job);
        }
      }
    }
  }

 private:
  GridCell& cell(std::size_t setting, std::size_t variant) {
    return result_.cells[setting * plan_.variants.size() + variant];
  }

  // All variants' answers to one prompt, or none of them.
  void add_answers(std::size_t setting, std::size_t prompt, std::size_t repetition,
                   const std::map<AnswerJob, const FinishedAnswer*>& by_job) {
    std::vector<const FinishedAnswer*> answers;
    bool all = true;
    for (std::size_t variant = 0; variant < plan_.variants.size(); ++variant) {
      const auto found = by_job.find({setting, variant, prompt, repetition});
      answers.push_back(found == by_job.end() ? nullptr : found->second);
      if (answers.back() == nullptr || answers.back()->failed()) all = false;
    }
    for (std::size_t variant = 0; variant < plan_.variants.size(); ++variant) {
      const FinishedAnswer* answer = answers[variant];
      GridCell& into = cell(setting, variant);
      if (answer != nullptr) count(*answer, into);
      if (all) into.answers.push_back(answer->answer.figures);
    }
  }

  void count(const FinishedAnswer& answer, GridCell& into) {
    if (answer.failed()) {
      ++into.failures;
      ++result_.failures;
      return;
    }
    ++result_.compared;
    add_conditions(answer.answer, into);
    if (answer.same_text) return;
    ++into.mismatches;
    ++result_.mismatches;
  }

  // How the answer came about.
  static void add_conditions(const EdgeAnswer& answer, GridCell& into) {
    const auto tokens = static_cast<double>(answer.record.stats.completion_tokens);
    into.speculation = answer.record.speculation;
    into.tokens += tokens;
    into.tokens_on += tokens * speculation_share(answer.record);
    if (!answer.link) return;
    if (!into.link) into.link.emplace();
    *into.link += *answer.link;
  }

  const GridPlan& plan_;
  GridResult& result_;
};

class Grid final {
 public:
  Grid(const GridPlan& plan, AnswerExecutor& executor, GridListener& listener)
      : plan_(plan),
        executor_(executor),
        listener_(listener),
        draft_(plan.settings.size()),
        target_(plan.settings.size()) {}

  Result<GridResult> run() {
    const std::vector<AnswerJob> jobs = jobs_of(plan_, executor_.order());
    std::vector<AnswerJob> left;
    for (const AnswerJob& job : jobs) {
      if (std::optional<FinishedAnswer> known = listener_.known(job)) {
        add(*std::move(known));
      } else {
        left.push_back(job);
      }
    }
    if (!left.empty()) OUTRIDER_RETURN_IF_ERROR(executor_.warm_up());
    OUTRIDER_RETURN_IF_ERROR(run_all(left));
    for (std::size_t i = 0; i < plan_.settings.size(); ++i) {
      result_.link_kinds.push_back(executor_.link_kind(i));
      const GridSetting& setting = plan_.settings[i];
      if (setting.pass.empty() && setting.step.empty()) continue;
      result_.overruns.push_back({setting.name, target_[i], draft_[i]});
    }
    fill_cells(plan_, result_);
    return std::move(result_);
  }

 private:
  using ReferenceKey = std::tuple<std::size_t, std::string, float, std::int32_t, float, float>;

  Status run_all(const std::vector<AnswerJob>& jobs) {
    std::optional<std::size_t> open;
    for (const AnswerJob& job : jobs) {
      OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId>* wanted, reference_of(job));
      if (open != job.setting) {
        if (open) target_[*open] = target_[*open] + executor_.end();
        OUTRIDER_RETURN_IF_ERROR(executor_.begin(job.setting));
        open = job.setting;
      }
      listener_.on_begin(job);
      OUTRIDER_ASSIGN_OR_RETURN(FinishedAnswer finished, run_one(job, *wanted));
      OUTRIDER_RETURN_IF_ERROR(listener_.on_finished(finished));
      add(std::move(finished));
    }
    if (open) target_[*open] = target_[*open] + executor_.end();
    return {};
  }

  Result<FinishedAnswer> run_one(const AnswerJob& job, const std::vector<TokenId>& wanted) {
    FinishedAnswer finished{.job = job};
    Result<EdgeAnswer> answer = executor_.answer(job);
    if (answer.ok()) {
      finished.answer = *std::move(answer);
      finished.agreement = agreement(wanted, finished.answer.record.ids);
      finished.same_text =
          has_own_text(plan_.variants[job.variant]) || finished.answer.record.ids == wanted;
      if (!finished.same_text) say_mismatch(job, wanted, finished.answer.record.ids);
      return finished;
    }
    if (answer.status().code() == StatusCode::kInvalidArgument) return answer.status();
    finished.error = answer.status().to_string();
    return finished;
  }

  void say_mismatch(const AnswerJob& job, const std::vector<TokenId>& wanted,
                    const std::vector<TokenId>& ids) const {
    const auto ends = std::mismatch(wanted.begin(), wanted.end(), ids.begin(), ids.end());
    std::fprintf(stderr, "\nmismatch: %s at %s, prompt %zu, token %td of %zu\n",
                 plan_.variants[job.variant].name.c_str(), plan_.settings[job.setting].name.c_str(),
                 job.prompt + 1, ends.first - wanted.begin(), wanted.size());
  }

  Result<const std::vector<TokenId>*> reference_of(const AnswerJob& job) {
    const GridSetting& setting = plan_.settings[job.setting];
    const SamplingParams& s = setting.sampling;
    const std::string target = setting.synthetic ? setting.synthetic->name : "";
    const ReferenceKey key{job.prompt, target, s.temperature, s.top_k, s.top_p, s.min_p};
    const auto found = references_.find(key);
    if (found != references_.end()) return &found->second;
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids, executor_.reference(job.prompt, setting));
    result_.reference_tokens += ids.size();
    return &references_.emplace(key, std::move(ids)).first->second;
  }

  void add(FinishedAnswer finished) {
    const std::size_t setting = finished.job.setting;
    if (!finished.failed() && !plan_.settings[setting].step.empty()) {
      const AnswerFigures& figures = finished.answer.figures;
      draft_[setting].passes += static_cast<std::int64_t>(figures.draft_steps);
      draft_[setting].overruns += static_cast<std::int64_t>(figures.draft_overruns);
    }
    result_.finished.push_back(std::move(finished));
  }

  const GridPlan& plan_;
  AnswerExecutor& executor_;
  GridListener& listener_;
  std::map<ReferenceKey, std::vector<TokenId>> references_;
  std::vector<PaceCounts> draft_;   // [setting]
  std::vector<PaceCounts> target_;  // [setting]
  GridResult result_;
};

// One line that is written over, and an end at the first failure.
class StrictProgress final : public GridListener {
 public:
  explicit StrictProgress(const GridPlan& plan)
      : plan_(plan), total_(jobs_of(plan, PromptOrder::kInside).size()) {}

  void on_begin(const AnswerJob& job) override {
    std::fprintf(stderr, "\r%4zu of %zu  %s  %s  prompt %zu          ", ++begun_, total_,
                 plan_.settings[job.setting].name.c_str(), plan_.variants[job.variant].name.c_str(),
                 job.prompt + 1);
    if (begun_ == total_) std::fputc('\n', stderr);
  }
  Status on_finished(const FinishedAnswer& answer) override {
    return answer.failed() ? unavailable(answer.error) : Status();
  }

 private:
  const GridPlan& plan_;
  const std::size_t total_;
  std::size_t begun_ = 0;
};

}  // namespace

const GridCell* GridResult::find(const std::string& setting, const std::string& variant) const {
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const GridCell& cell) {
    return cell.setting == setting && cell.variant == variant;
  });
  return found == cells.end() ? nullptr : &*found;
}

void fill_cells(const GridPlan& plan, GridResult& result) {
  CellTable(plan, result).fill();
}

Result<GridResult> run_grid(const GridPlan& plan, AnswerExecutor& executor,
                            GridListener& listener) {
  return Grid(plan, executor, listener).run();
}

Result<GridResult> run_grid(const GridPlan& plan) {
  RealExecutor executor(plan);
  StrictProgress progress(plan);
  return run_grid(plan, executor, progress);
}

}  // namespace outrider
