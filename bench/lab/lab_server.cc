// outrider-lab-server: outrider-server with emulated devices, with passes that wait until a test
// lets them go, and with exits that are ranked and scored in other ways. The bench and the tests
// start it; it is not packaged. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cloud_server/options.h"
#include "cloud_server/server_main.h"
#include "common/engine/model/emulated/paced_model.h"
#include "common/serving/cli/choice.h"
#include "common/serving/cli/quantities.h"

namespace outrider {
namespace {

constexpr char kLabGroup[] = "Laboratory";

// A pass that computes the position which the file names, or a later one, waits until the file
// names a position behind it, or is gone. So an answer is held in its middle, however fast the
// machine is, until a test has done there what it is about.
class HeldModel final : public Model {
 public:
  HeldModel(std::unique_ptr<Model> model, std::string file, Clock& clock)
      : model_(std::move(model)), file_(std::move(file)), clock_(clock) {}

  const ModelInfo& info() const override { return model_->info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_->new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    while (is_held(rows)) {
      if (out.is_abandoned()) return cancelled("the pass was abandoned");
      clock_.sleep_until(clock_.now() + std::chrono::milliseconds(2));
    }
    return model_->forward(rows, out);
  }
  Status check_unchanged() const override { return model_->check_unchanged(); }

 private:
  bool is_held(std::span<const Row> rows) const {
    Position first_held = 0;
    if (!(std::ifstream(file_) >> first_held)) return false;
    return std::ranges::any_of(
        rows, [&](const Row& row) { return row.cache->slots().position(row.slot) >= first_held; });
  }

  const std::unique_ptr<Model> model_;
  const std::string file_;
  Clock& clock_;
};

// The values of --pace-pass-ms, --pace-exit-cost and --hold, which may come in any order.
struct PaceFlags {
  PaceCurve curve;
  double exit_cost = 1;
  std::string hold_file;
};

// Reads the flags when the model is loaded, after all of them were parsed. flags: outlive it.
class LabPacer final : public ModelPacer {
 public:
  explicit LabPacer(const PaceFlags& flags) : flags_(flags) {}

  std::unique_ptr<Model> pace(std::unique_ptr<Model> model, Clock& clock) override {
    if (!flags_.hold_file.empty())
      model = std::make_unique<HeldModel>(std::move(model), flags_.hold_file, clock);
    if (flags_.curve.empty()) return model;
    return curve_.emplace(flags_.curve, flags_.exit_cost).pace(std::move(model), clock);
  }
  PaceCounts counts() const override { return curve_ ? curve_->counts() : PaceCounts{}; }
  std::string about() const override {
    std::string said = flags_.curve.empty() ? "" : flags_.curve.to_string() + " ms a pass";
    if (flags_.hold_file.empty()) return said;
    return said + (said.empty() ? "" : "; ") + "passes wait for " + flags_.hold_file;
  }

 private:
  const PaceFlags& flags_;
  std::optional<CurvePacer> curve_;
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
               flags.target.pacer = std::make_shared<LabPacer>(pace);
             })
      ->group(kLabGroup);
  app.add_option("--pace-exit-cost", pace.exit_cost,
                 "With --pace-pass-ms, a pass with early exits takes so many times as long")
      ->check(CLI::Range(1.0, 10.0))
      ->default_str("1")
      ->group(kLabGroup);
  app.add_option("--kernel", flags.target.loading.kernel,
                 "Vector kernels: avx2, avx2vnni, avx512, neon, neondot, neoni8mm, as far as this "
                 "CPU has them; auto: the fastest")
      ->group(kLabGroup);
  app.add_option_function<std::string>(
         "--hold",
         [&](const std::string& file) {
           pace.hold_file = file;
           flags.target.pacer = std::make_shared<LabPacer>(pace);
         },
         "A pass that computes the position which FILE names, or a later one, waits until FILE "
         "names one behind it or is gone")
      ->type_name("FILE")
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
