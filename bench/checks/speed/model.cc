// The latency law without a run: which strategy wins where, figure 1 of the FSD paper by its own
// times, and its equation 9 as contours; with a run's report the measured points beside them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <array>
#include <cstdio>
#include <memory>
#include <vector>

#include "adapters/plot/line_plot.h"
#include "bench/checks/checks.h"
#include "bench/paces/paces.h"
#include "bench/paper/fsd_tables.h"
#include "bench/paper/measured_points.h"
#include "bench/paper/strategy_map.h"
#include "bench/report/report_file.h"
#include "bench/report/run_report.h"
#include "bench/report/text_table.h"
#include "bench/scenario/value_list.h"
#include "common/base/files.h"

namespace outrider {
namespace {

constexpr int kMaxGamma = 8;
constexpr std::array kContours = {1.1, 1.2, 1.5, 2.0, 5.0};
constexpr std::array kGammas = {4.0, 7.0, 10.0};
constexpr const char* kFigure1Pace = "jetson-68m-7b";

struct ModelOptions {
  std::string pace;  // empty: the axes
  std::string step_ms = "8,25,85";
  std::string pass_ms = "18,100,450";
  std::string one_way_ms = "0,5,20,50,100,150";
  std::string acceptance = "0.3-0.95+0.05";
  std::optional<double> cloud_step_ms;  // a share of the pass, unless given
  double hit_rate = 0.6;
  std::string report;
  std::string out;
};

// ---------------------------------------------------------------------------------- the map

// Its axes. A pass grows with its rows as the device's does, table 9's unless one is named.
struct MapAxes {
  std::vector<double> step_ms, pass_ms, one_way_ms, acceptance;
  PaceCurve pass;
};

Result<PaperPace> paced_device(const std::string& name) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PaperPace> paces, find_paces({name}));
  if (paces.size() != 1 || paces.front().pass_ms <= 0) {
    return invalid_argument("--pace " + name + ": expected one paced device");
  }
  return paces.front();
}

Result<MapAxes> axes_of(const ModelOptions& options, bool own_steps, bool own_passes) {
  MapAxes axes;
  OUTRIDER_ASSIGN_OR_RETURN(const PaperPace device,
                            paced_device(options.pace.empty() ? "table9-5ms" : options.pace));
  axes.pass = pass_curve(device);
  axes.step_ms = {step_curve(device).ms(1)};
  axes.pass_ms = {axes.pass.ms(1)};
  if (own_steps || options.pace.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(axes.step_ms,
                              parse_values(options.step_ms, "--step-ms", {0.001, 1e6}));
  }
  if (own_passes || options.pace.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(axes.pass_ms,
                              parse_values(options.pass_ms, "--pass-ms", {0.001, 1e6}));
  }
  OUTRIDER_ASSIGN_OR_RETURN(axes.one_way_ms,
                            parse_values(options.one_way_ms, "--one-way-ms", {0, 10000}));
  OUTRIDER_ASSIGN_OR_RETURN(axes.acceptance,
                            parse_values(options.acceptance, "--acceptance", {0, 1}));
  return axes;
}

// A letter for each acceptance: the fastest of all, and of those without a draft in the cloud.
void map_row(const MapAxes& axes, MapPoint point, Json& map) {
  std::string all, on_edge;
  for (const double share : axes.acceptance) {
    point.acceptance = share;
    const MapChoice best = fastest_at(point, kMaxGamma, true);
    const MapChoice edge = fastest_at(point, kMaxGamma, false);
    all += best.letter;
    on_edge += edge.letter;
    map.push_back({{"pass_ms", point.pass.ms(1)},
                   {"step_ms", point.step_ms},
                   {"one_way_ms", point.one_way_ms},
                   {"acceptance", share},
                   {"fastest", best.name},
                   {"gamma", best.gamma},
                   {"over_ar", point.pass.ms(1) / best.ms},
                   {"fastest_without_cloud_draft", edge.name},
                   {"gamma_without_cloud_draft", edge.gamma},
                   {"over_ar_without_cloud_draft", point.pass.ms(1) / edge.ms}});
  }
  std::printf("%9.4g %9.4g %9.4g   %s   %s\n", point.pass.ms(1), point.step_ms, point.one_way_ms,
              all.c_str(), on_edge.c_str());
}

Json print_map(const ModelOptions& options, const MapAxes& axes) {
  std::printf(
      "fastest by the latency law: . ar  s sd  f fsd  m mirror  c sd-cloud (the draft beside the "
      "target); best of gamma 1 to %d, %.0f %% of the rounds ahead of their verdict\n"
      "a letter for each acceptance, from %.2f to %.2f: first of all, then without sd-cloud\n"
      "%9s %9s %9s\n",
      kMaxGamma, 100 * options.hit_rate, axes.acceptance.front(), axes.acceptance.back(), "T_q, ms",
      "T_p, ms", "T_c, ms");
  Json map = Json::array();
  for (const double pass_ms : axes.pass_ms) {
    for (const double step_ms : axes.step_ms) {
      for (const double one_way_ms : axes.one_way_ms) {
        map_row(axes,
                {.step_ms = step_ms,
                 .cloud_step_ms = options.cloud_step_ms.value_or(pass_ms * kCloudDraftShare),
                 .pass = axes.pass.scaled(pass_ms / axes.pass.ms(1)),
                 .one_way_ms = one_way_ms,
                 .hit_rate = options.hit_rate},
                map);
      }
    }
  }
  return map;
}

// --------------------------------------------------------------------------------- figure 1

Result<Json> print_figure1(const ModelOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(PaperPace pace,
                            paced_device(options.pace.empty() ? kFigure1Pace : options.pace));
  if (!pace.paper) {
    OUTRIDER_ASSIGN_OR_RETURN(pace, paced_device(kFigure1Pace));
  }
  const LawTerms round{.step_ms = pace.step_ms,
                       .pass_ms = pace.pass_ms,
                       .one_way_ms = pace.one_way_ms,
                       .gamma = 4,
                       .tau = pace.paper->tau,
                       .left_rate = pace.paper->miss_rate,
                       .synced_rate = 1 - pace.paper->miss_rate};
  const auto parts = figure1_parts(round, pace.pass_ms,
                                   options.cloud_step_ms.value_or(pace.pass_ms * kCloudDraftShare));
  TextTable table{
      .heads = {"figure 1, ms per token", "drafting", "link", "target", "all", "over (a)"},
      .rows = {}};
  Json json = Json::array();
  for (const TokenParts& one : parts) {
    const double over = parts.front().total_ms() / one.total_ms();
    const auto ms = [](double value) { return fmt::format("{:.0f}", value); };
    table.rows.push_back({one.name, ms(one.drafting_ms), ms(one.link_ms), ms(one.target_ms),
                          ms(one.total_ms()), fmt::format("{:.2f}", over)});
    json.push_back({{"name", one.name},
                    {"drafting_ms", one.drafting_ms},
                    {"link_ms", one.link_ms},
                    {"target_ms", one.target_ms},
                    {"over_cloud_decoding", over}});
  }
  std::printf(
      "\nby table 4 with the printed times, tau and r of %s; the draft beside the target is "
      "chosen\n%s",
      pace.name.c_str(), to_plain_text(table, 1).c_str());
  return json;
}

// ---------------------------------------------------------------------------- measured points

Result<std::vector<MeasuredPoint>> read_points(const ModelOptions& options) {
  if (options.report.empty()) return std::vector<MeasuredPoint>();
  OUTRIDER_ASSIGN_OR_RETURN(const Json report, read_report(options.report));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<MeasuredPoint> points,
                            measured_points(report, options.report, options.hit_rate));
  if (points.empty()) {
    return invalid_argument("--report " + options.report +
                            ": no setting has both ar and sd. Remedy: run --strategy ar,sd,..");
  }
  return points;
}

Json print_points(const std::vector<MeasuredPoint>& points) {
  TextTable table{.heads = {"setting", "strategy", "T_c", "T_p", "T_q", "acceptance", "law, ms",
                            "measured, ms", "measured/law"},
                  .rows = {}};
  Json json = Json::array();
  for (const MeasuredPoint& point : points) {
    Json speeds = Json::object();
    for (const MeasuredSpeed& speed : point.speeds) {
      const std::optional<double> ratio =
          speed.law_ms ? std::optional(speed.measured_ms / *speed.law_ms) : std::nullopt;
      table.rows.push_back(
          {point.setting, speed.strategy, fmt::format("{:.1f}", point.at.one_way_ms),
           fmt::format("{:.2f}", point.at.step_ms), fmt::format("{:.2f}", point.at.pass.ms(1)),
           fmt::format("{:.2f}", point.at.acceptance), number_or_dash(speed.law_ms, "{:.2f}"),
           fmt::format("{:.2f}", speed.measured_ms), number_or_dash(ratio, "{:.2f}")});
      speeds[speed.strategy] = {{"measured_ms", speed.measured_ms},
                                {"law_ms", speed.law_ms ? Json(*speed.law_ms) : Json()}};
    }
    json.push_back(
        {{"setting", point.setting},
         {"gamma", point.gamma},
         {"one_way_ms", point.at.one_way_ms},
         {"step_ms", point.at.step_ms},
         {"pass_ms", point.at.pass.ms(1)},
         {"acceptance", point.at.acceptance},
         {"hit_rate", point.at.hit_rate},
         {"latency_ratio", point.latency_ratio()},
         {"miss_rate", point.miss_rate ? Json(*point.miss_rate) : Json()},
         {"fsd_over_sd", point.fsd_over_sd ? Json(*point.fsd_over_sd) : Json()},
         {"equation9", point.miss_rate
                           ? Json(equation9(point.gamma, point.latency_ratio(), *point.miss_rate))
                           : Json()},
         {"speeds", std::move(speeds)}});
  }
  std::printf(
      "\nmeasured points (one way, a step, a pass of one row in ms; up to the run's gamma)\n%s",
      to_plain_text(table, 2).c_str());
  return json;
}

// --------------------------------------------------------------------------------- figure 6

PlotSeries dots(const std::string& name, std::size_t colour) {
  return {.name = name, .colour = colour};
}

PlotPanel contours_at(double gamma, const std::vector<MeasuredPoint>& points) {
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
  for (const PaperPace& pace : paper_paces()) {
    if (!pace.paper || pace.name.find("jetson") == std::string::npos) continue;
    const bool first = panel.series.size() == kContours.size();
    panel.series.push_back(dots(first ? "the paper's pairs" : "", 5));
    panel.series.back().points.push_back({pace.step_ms / pace.pass_ms, pace.paper->miss_rate});
  }
  bool named = false;
  for (const MeasuredPoint& point : points) {
    if (point.gamma != static_cast<int>(gamma) || !point.miss_rate) continue;
    panel.series.push_back(dots(named ? "" : "measured", 6));
    panel.series.back().points.push_back({point.latency_ratio(), *point.miss_rate});
    named = true;
  }
  return panel;
}

LinePlot figure6(const std::vector<MeasuredPoint>& points) {
  LinePlot plot{.title = "Equation 9: what pre-drafting gains over plain speculation",
                .note =
                    "no link; dots: the paper's pairs on the Jetson (their r at gamma 4), and "
                    "the report's measured ones at that gamma"};
  for (const double gamma : kGammas) plot.panels.push_back(contours_at(gamma, points));
  return plot;
}

Result<CheckOutcome> run_model(const ModelOptions& options, bool own_steps, bool own_passes) {
  OUTRIDER_ASSIGN_OR_RETURN(const MapAxes axes, axes_of(options, own_steps, own_passes));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<MeasuredPoint> points, read_points(options));
  CheckOutcome outcome{.passed = true};
  outcome.figures = {{"modelled", true}, {"hit_rate", options.hit_rate}};
  outcome.figures["map"] = print_map(options, axes);
  OUTRIDER_ASSIGN_OR_RETURN(outcome.figures["figure1"], print_figure1(options));
  if (!points.empty()) outcome.figures["measured"] = print_points(points);
  if (!options.out.empty()) OUTRIDER_RETURN_IF_ERROR(write_plot(figure6(points), options.out));
  return outcome;
}

}  // namespace

void add_model_check(CheckList& checks) {
  auto options = std::make_shared<ModelOptions>();
  auto given = std::make_shared<std::array<CLI::Option*, 2>>();
  CLI::App* command =
      checks.add("model", "Where each strategy wins by the latency law, without a run (modelled)",
                 [options, given] {
                   return run_model(*options, (*given)[0]->count() > 0, (*given)[1]->count() > 0);
                 });
  command->add_option("--pace", options->pace,
                      "One device, with its T_p and T_q, in place of these two axes");
  (*given)[0] = command->add_option("--step-ms", options->step_ms, "T_p: a list or a range");
  (*given)[1] =
      command->add_option("--pass-ms", options->pass_ms, "T_q of one row: a list or a range");
  command->add_option("--one-way-ms", options->one_way_ms, "T_c: 0-150+10 or a list");
  command->add_option("--acceptance", options->acceptance,
                      "Chance that a drafted token stands: 0.3-0.95+0.05 or a list");
  command
      ->add_option("--cloud-step-ms", options->cloud_step_ms,
                   "sd-cloud: a step of the draft beside the target [a sixteenth of T_q, chosen]")
      ->check(CLI::Range(0.001, 1e6));
  command
      ->add_option("--hit-rate", options->hit_rate,
                   "fsd, mirror: the share of the rounds that were ready before their verdict")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--report", options->report,
                      "A report.json of run with ar and sd: its points beside the law");
  command->add_option("--out", options->out, "Write equation 9's contours (figure 6) to this SVG");
}

}  // namespace outrider
