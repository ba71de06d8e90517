// SPDX-License-Identifier: Apache-2.0
#include "bench/checks/paper/tree_study.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace outrider {

TreeStudy::TreeStudy(const ReproduceOptions& options)
    : prompts_(options.grid.prompts.empty() ? "bench/prompts/gsm8k.jsonl" : options.grid.prompts) {
  options_.models = {.target = options.grid.plan.target, .draft = options.grid.plan.draft};
  options_.num_prompts = options.grid.num_prompts;
}

void TreeStudy::use(FlashModels models) {
  options_.models = std::move(models);
  flash_.reset();
}

void TreeStudy::blur_draft(double deviation) {
  FlashModels models = options_.models;
  models.draft_blur = deviation;
  use(std::move(models));
}

void TreeStudy::use_pair(const EdgellmCorrect& printed) {
  FlashModels models = options_.models;
  models.agreement = printed.share;
  use(std::move(models));
  options_.pace = printed.pace;
}

void TreeStudy::use_demo_pair(const std::string& pace) {
  FlashModels models = options_.models;
  models.agreement.reset();
  use(std::move(models));
  options_.pace = pace;
}

void TreeStudy::at_most(std::size_t prompts) {
  options_.num_prompts =
      options_.num_prompts == 0 ? prompts : std::min(options_.num_prompts, prompts);
}

Result<TreeResults> TreeStudy::run(const Names& policies, const std::string& prompts) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TreeRival> rivals, find_tree_rivals(policies));
  return run(rivals, prompts);
}

Result<TreeResults> TreeStudy::run(const std::vector<TreeRival>& rivals,
                                   const std::string& prompts) {
  if (flash_ == nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(flash_, FlashAnswers::load(options_.models));
  }
  RivalMemories memories;
  OUTRIDER_ASSIGN_OR_RETURN(
      TreeResults results,
      run_trees(*flash_, options_, rivals, prompts.empty() ? prompts_ : prompts, memories));
  if (results.mismatches > 0) return data_loss("answers differ from plain decoding's");
  return results;
}

TreeReproduction reproduction_of(const Twin& twin, const std::string& figure,
                                 Status (*run)(TreeStudy&, const Twin&, Findings&)) {
  return {twin.policy(figure),
          [twin, run](TreeStudy& study, Findings& findings) { return run(study, twin, findings); }};
}

std::vector<TreeReproduction> tree_reproductions() {
  std::vector<TreeReproduction> all;
  for (auto& some : {delay_reproductions(), edgellm_reproductions(), parts_reproductions(),
                     lever_reproductions()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

double tokens_per_s(const TreeResults& results, const std::string& policy) {
  const std::optional<double> tpot = sum_of(*results.of(policy)).tpot_ms();
  return tpot && *tpot > 0 ? 1e3 / *tpot : 0;
}

double speed_over(const TreeResults& results, const std::string& one, const std::string& other) {
  const double base = tokens_per_s(results, other);
  return base > 0 ? tokens_per_s(results, one) / base : 0;
}

double tau(const TreeResults& results, const std::string& policy) {
  return tokens_per_pass(sum_of(*results.of(policy))).value_or(0);
}

void claim_near(const std::string& what, double printed, double ours, const char* reason,
                Findings& findings) {
  findings.claims.push_back({.what = what,
                             .printed = printed,
                             .ours = ours,
                             .band = Band::near(printed, kRelativeBand),
                             .reason = reason});
}

void claim_at_least(const std::string& what, double one, double other, const char* reason,
                    Findings& findings, double slack) {
  findings.claims.push_back({.what = what,
                             .printed = 1,
                             .ours = other > 0 ? one / other : 0,
                             .band = Band::at_least(1 - slack),
                             .reason = reason});
}

void claim_range(const std::string& what, const PrintedRange& printed, double ours,
                 const char* reason, Findings& findings) {
  findings.claims.push_back(
      {.what = printed.low == printed.high
                   ? what
                   : fmt::format("{} (printed {} to {})", what, printed.low, printed.high),
       .printed = printed.nearest(ours),
       .ours = ours,
       .band = {.low = printed.low * (1 - kRelativeBand),
                .high = printed.high * (1 + kRelativeBand)},
       .reason = reason});
}

void quote(const std::string& what, double printed, Findings& findings) {
  findings.claims.push_back({.what = what, .printed = printed});
}

}  // namespace outrider
