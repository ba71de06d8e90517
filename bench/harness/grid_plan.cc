// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/grid_plan.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace outrider {
namespace {

// Longer than most answers, and no multiple of the periods of black-outs.
constexpr Duration kOffsetStep = std::chrono::milliseconds(17'300);

// The number of an answer among all prompts and repetitions.
std::size_t unit_of(const GridPlan& plan, const AnswerJob& job) {
  return job.repetition * plan.prompts.size() + job.prompt;
}

}  // namespace

GridVariant variant_of(const StrategyChoice& strategy) {
  GridVariant variant;
  variant.name = name_of(strategy);
  variant.strategy = strategy;
  variant.uses_exits = strategy == Strategy::kFsd || strategy == Strategy::kMirror;
  // The paper's algorithm 2 has no calibration, and learns nothing.
  if (strategy == Strategy::kFsd) {
    variant.server_flags = {"--exit-score=max-softmax"};
    variant.server_queue = ReportQueue::kPriority;
  }
  return variant;
}

Duration link_offset(const GridPlan& plan, const AnswerJob& job) {
  return kOffsetStep * static_cast<Duration::rep>(unit_of(plan, job));
}

std::uint64_t link_seed(const GridPlan& plan, const AnswerJob& job) {
  constexpr std::uint64_t kSeedsOfARun = 1'000'003;  // a cell of a run has fewer answers
  return plan.seed * kSeedsOfARun + unit_of(plan, job);
}

bool is_traced(const GridPlan& plan, const AnswerJob& job) {
  if (!plan.traces || job.prompt != 0 || job.repetition != 0) return false;
  const auto round_trip = [&](std::size_t setting) {
    const LinkProfile& link = plan.settings[setting].link;
    return link.up.delay + link.down.delay;
  };
  std::vector<std::size_t> by_distance(plan.settings.size());
  std::iota(by_distance.begin(), by_distance.end(), std::size_t{0});
  std::ranges::stable_sort(by_distance, {}, round_trip);
  return job.setting == by_distance[by_distance.size() / 2];
}

std::vector<AnswerJob> jobs_of(const GridPlan& plan, PromptOrder order) {
  const std::size_t variants = plan.variants.size();
  const auto repetitions = static_cast<std::size_t>(plan.repetitions);
  std::vector<AnswerJob> jobs;
  const auto add_variants = [&](std::size_t setting, std::size_t prompt, std::size_t repetition) {
    for (std::size_t i = 0; i < variants; ++i) {
      jobs.push_back({setting, (prompt + repetition + i) % variants, prompt, repetition});
    }
  };
  if (order == PromptOrder::kInside) {
    for (std::size_t setting = 0; setting < plan.settings.size(); ++setting) {
      for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
        for (std::size_t prompt = 0; prompt < plan.prompts.size(); ++prompt) {
          add_variants(setting, prompt, repetition);
        }
      }
    }
    return jobs;
  }
  for (std::size_t prompt = 0; prompt < plan.prompts.size(); ++prompt) {
    for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
      for (std::size_t setting = 0; setting < plan.settings.size(); ++setting) {
        add_variants(setting, prompt, repetition);
      }
    }
  }
  return jobs;
}

}  // namespace outrider
