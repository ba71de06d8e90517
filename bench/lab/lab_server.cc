// outrider-lab-server: outrider-server with emulated devices, and with exits that are ranked and
// scored in other ways. The bench starts it; it is not packaged.
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cloud_server/options.h"
#include "cloud_server/server_main.h"
#include "common/engine/model/emulated/paced_model.h"
#include "common/serving/cli/choice.h"
#include "common/serving/cli/quantities.h"

namespace outrider {
namespace {

constexpr char kLabGroup[] = "Laboratory";

// What --pace-pass-ms and --pace-exit-cost say, in whichever order they stand.
struct PaceFlags {
  PaceCurve curve;
  double exit_cost = 1;

  std::shared_ptr<ModelPacer> pacer() const {
    return curve.empty() ? nullptr : std::make_shared<CurvePacer>(curve, exit_cost);
  }
};

void add_lab_flags(CLI::App& app, ServerFlags& flags, PaceFlags& pace) {
  add_choice(
      app, "--server-queue", flags.server.scheduler.report_queue,
      "Which exit report goes first: the likeliest, as verdicts correct it (gain), the surest, "
      "as exits state it (priority), or the oldest (fifo)")
      ->group(kLabGroup);
  add_choice(app, "--exit-score", flags.server.scheduler.exit_score,
             "Confidence of exit reports: calibrated, or the greatest probability of a token in "
             "the exit's walk (max-softmax)")
      ->group(kLabGroup);
  add_parsed(app, "--pace-pass-ms",
             "Emulate a slower device: each pass takes MS; or ROWS:MS,ROWS:MS,..", PaceCurve::parse,
             [&](const PaceCurve& curve) {
               pace.curve = curve;
               flags.target.pacer = pace.pacer();
             })
      ->group(kLabGroup);
  app.add_option_function<double>(
         "--pace-exit-cost",
         [&](double cost) {
           pace.exit_cost = cost;
           flags.target.pacer = pace.pacer();
         },
         "Of --pace-pass-ms: a pass with early exits takes so many times as long")
      ->check(CLI::Range(1.0, 10.0))
      ->default_str("1")
      ->group(kLabGroup);
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  outrider::PaceFlags pace;
  return outrider::server_main(argc, argv,
                               {.program = "outrider-lab-server",
                                .add_flags = [&pace](CLI::App& app, outrider::ServerFlags& flags) {
                                  outrider::add_lab_flags(app, flags, pace);
                                }});
}
