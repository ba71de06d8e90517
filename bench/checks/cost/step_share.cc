// SPDX-License-Identifier: Apache-2.0
#include "bench/checks/cost/step_share.h"

#include <memory>
#include <optional>
#include <vector>

#include "bench/edges/bench_edge.h"
#include "bench/peers/pass_runner.h"

namespace outrider {
namespace {

constexpr int kContext = 128;
constexpr int kRounds = 41;

}  // namespace

Result<Estimate> measure_step_share(const StepShareOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> draft,
                            load_bench_model(options.draft, options.draft_dtype, options.threads));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> target,
                            load_bench_model(options.target, options.dtype, options.threads));
  OUTRIDER_ASSIGN_OR_RETURN(PassRunner steps, PassRunner::make(*draft, kContext + 1));
  OUTRIDER_ASSIGN_OR_RETURN(PassRunner passes, PassRunner::make(*target, kContext + 1));
  std::vector<double> step_seconds, pass_seconds;
  for (int round = 0; round <= kRounds; ++round) {
    OUTRIDER_ASSIGN_OR_RETURN(const double step, steps.time_pass(1, kContext));
    OUTRIDER_ASSIGN_OR_RETURN(const double pass, passes.time_pass(1, kContext));
    if (round == 0) continue;  // warms up
    step_seconds.push_back(step);
    pass_seconds.push_back(pass);
  }
  const std::optional<Estimate> share = ratio_of_medians(pass_seconds, step_seconds);
  if (!share) return failed_precondition("the target's passes took no time");
  return *share;
}

}  // namespace outrider
