// The latency law without a run: which strategy wins where, and equation 9 of the FSD paper as
// contours. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "adapters/plot/line_plot.h"
#include "bench/checks/checks.h"
#include "bench/harness/law.h"
#include "bench/paces/paces.h"
#include "bench/paper/fsd_tables.h"
#include "bench/scenario/value_list.h"
#include "common/base/files.h"

namespace outrider {
namespace {

constexpr int kMaxGamma = 8;
constexpr std::array kContours = {1.1, 1.2, 1.5, 2.0, 5.0};
constexpr std::array kGammas = {4.0, 7.0, 10.0};

struct ModelOptions {
  std::string pace = "table9-5ms";
  std::optional<double> step_ms, pass_ms;  // of the pace, unless given
  std::string one_way_ms = "0-150+10";
  std::string acceptance = "0.3-0.95+0.05";
  double hit_rate = 0.6;
  std::string out;
};

// The times of a device, with the pass as it grows with its rows.
struct Device {
  double step_ms = 0;
  PaceCurve pass;
};

// The tokens of a pass whose gamma drafted tokens each stand with that chance.
double tokens_per_pass(double acceptance, int gamma) {
  double tokens = 0, chance = 1;
  for (int i = 0; i <= gamma; ++i, chance *= acceptance) tokens += chance;
  return tokens;
}

struct Choice {
  const char* name = "ar";
  char letter = '.';
  double ms = 0;
  int gamma = 0;
};

// hit_rate: of passes whose next round was drafted, or sent, before the verdict.
Choice fastest(const Device& device, double one_way_ms, double acceptance, double hit_rate) {
  Choice best{.ms = device.pass.ms(1)};
  const auto offer = [&](const char* name, char letter, Strategy strategy, const LawTerms& terms) {
    const double ms = law_ms(strategy, terms);
    if (ms < best.ms) best = {name, letter, ms, static_cast<int>(terms.gamma)};
  };
  for (int gamma = 1; gamma <= kMaxGamma; ++gamma) {
    LawTerms terms{.step_ms = device.step_ms,
                   .pass_ms = device.pass.ms(gamma + 1),
                   .one_way_ms = one_way_ms,
                   .gamma = static_cast<double>(gamma),
                   .tau = tokens_per_pass(acceptance, gamma)};
    offer("sd", 's', Strategy::kSd, terms);
    terms.left_rate = 1 - hit_rate;
    offer("fsd", 'f', Strategy::kFsd, terms);
    terms.synced_rate = hit_rate;
    offer("mirror", 'm', Strategy::kMirror, terms);
  }
  return best;
}

Result<Device> device_of(const ModelOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PaperPace> paces, find_paces({options.pace}));
  if (paces.size() != 1 || paces.front().pass_ms <= 0) {
    return invalid_argument("--pace " + options.pace + ": expected one paced device");
  }
  Device device{.step_ms = step_curve(paces.front()).ms(1), .pass = pass_curve(paces.front())};
  if (options.step_ms) device.step_ms = *options.step_ms;
  if (options.pass_ms) device.pass = device.pass.scaled(*options.pass_ms / device.pass.ms(1));
  return device;
}

LinePlot contours() {
  LinePlot plot{.title = "Equation 9: what pre-drafting gains over plain speculation",
                .note = "no link; dots: the paper's pairs on the Jetson at gamma 4"};
  for (const double gamma : kGammas) {
    PlotPanel panel{.x_label = fmt::format("c = T_p / T_q, at γ = {:.0f}", gamma),
                    .y_label = "cache miss rate r",
                    .x_end = 1,
                    .y_end = 1};
    for (const double speedup : kContours) {
      PlotSeries series{.name = fmt::format("{:.1f}×", speedup), .marked = false};
      for (int i = 1; i <= 200; ++i) {
        const double ratio = i / 200.0;
        const auto miss_rate = equation9_contour(gamma, ratio, speedup);
        if (miss_rate) series.points.push_back({ratio, *miss_rate});
      }
      panel.series.push_back(std::move(series));
    }
    PlotSeries pairs{.name = "the paper's pairs"};
    for (const PaperPace& pace : paper_paces()) {
      if (!pace.paper || pace.name.find("jetson") == std::string::npos) continue;
      PlotSeries dot{.name = pairs.points.empty() && panel.series.size() == kContours.size()
                                 ? pairs.name
                                 : ""};
      dot.points.push_back({pace.step_ms / pace.pass_ms, pace.paper->miss_rate});
      panel.series.push_back(std::move(dot));
    }
    plot.panels.push_back(std::move(panel));
  }
  return plot;
}

Result<CheckOutcome> run_model(const ModelOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const Device device, device_of(options));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> delays,
                            parse_values(options.one_way_ms, "--one-way-ms", {0, 10000}));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> shares,
                            parse_values(options.acceptance, "--acceptance", {0, 1}));
  std::printf(
      "fastest by the latency law: . ar  s sd  f fsd  m mirror (T_p %.4g ms, T_q %.4g ms, "
      "best of gamma 1 to %d, %.0f %% of the rounds ahead of their verdict)\n%10s",
      device.step_ms, device.pass.ms(1), kMaxGamma, 100 * options.hit_rate, "T_c, ms");
  for (const double share : shares) std::printf(" %.2f", share);
  std::printf("  acceptance\n");
  Json map = Json::array();
  for (const double delay : delays) {
    std::printf("%10.4g", delay);
    for (const double share : shares) {
      const Choice best = fastest(device, delay, share, options.hit_rate);
      std::printf("    %c", best.letter);
      map.push_back({{"one_way_ms", delay},
                     {"acceptance", share},
                     {"fastest", best.name},
                     {"gamma", best.gamma},
                     {"over_ar", device.pass.ms(1) / best.ms}});
    }
    std::printf("\n");
  }
  CheckOutcome outcome{.passed = true};
  outcome.figures = {{"modelled", true},
                     {"step_ms", device.step_ms},
                     {"pass_ms", device.pass.ms(1)},
                     {"hit_rate", options.hit_rate},
                     {"map", std::move(map)}};
  if (!options.out.empty()) OUTRIDER_RETURN_IF_ERROR(write_plot(contours(), options.out));
  return outcome;
}

}  // namespace

void add_model_check(CheckList& checks) {
  auto options = std::make_shared<ModelOptions>();
  CLI::App* command =
      checks.add("model", "Where each strategy wins by the latency law, without a run (modelled)",
                 [options] { return run_model(*options); });
  command->add_option("--pace", options->pace, "The device whose times count");
  command->add_option("--step-ms", options->step_ms, "T_p instead of the pace's")
      ->check(CLI::Range(0.001, 1e6));
  command->add_option("--pass-ms", options->pass_ms, "T_q of one row instead of the pace's")
      ->check(CLI::Range(0.001, 1e6));
  command->add_option("--one-way-ms", options->one_way_ms, "T_c: 0-150+10 or a list");
  command->add_option("--acceptance", options->acceptance,
                      "Chance that a drafted token stands: 0.3-0.95+0.05 or a list");
  command
      ->add_option("--hit-rate", options->hit_rate,
                   "fsd, mirror: the share of the rounds that were ready before their verdict")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--out", options->out, "Write equation 9's contours (figure 6) to this SVG");
}

}  // namespace outrider
