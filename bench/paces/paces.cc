// SPDX-License-Identifier: Apache-2.0
#include "bench/paces/paces.h"

#include <algorithm>
#include <array>
#include <span>
#include <sstream>

namespace outrider {
namespace {

constexpr int kPaperGamma = 4;  // of tables 5, 6 and 8

struct RowTime {
  double rows;
  double ms;
};

// Table 9. Where the Jetson's time falls from one point to the next, the larger one is used.
constexpr std::array<RowTime, 9> kA100 = {{{1, 17.94},
                                           {2, 21.75},
                                           {3, 24.35},
                                           {4, 24.63},
                                           {8, 30.73},
                                           {12, 44.52},
                                           {16, 45.79},
                                           {32, 96.94},
                                           {64, 258.79}}};
constexpr std::array<RowTime, 8> kJetson = {
    {{1, 7.76}, {2, 8.02}, {3, 8.02}, {4, 8.02}, {8, 8.97}, {12, 9.71}, {16, 10.63}, {32, 14.49}}};

// A step of Qwen3 0.6B on Jetsons of 2026.
//
// Orin Nano, 4 bits: llama.cpp decodes 1.54 billion parameters (Qwen2.5-Coder 1.5B, Q4_K_M) at 32.1
// tokens a second (github.com/paiml/realizar, issue 120), and memory bounds it, so 0.63 billion
// take 0.41 of that time. AGX Orin, 16 bits: 117.5 tokens a second (Embedl, Edge Inference
// Benchmarks). AGX Thor, 4-bit floats: 318.6 (NVIDIA, TensorRT Edge-LLM 0.4.0, performance
// benchmarks).
constexpr double kOrinNanoStepMs = 13;
constexpr double kAgxOrinStepMs = 1e3 / 117.5;
constexpr double kThorStepMs = 1e3 / 318.6;
// From the same page of NVIDIA's: Llama 3.1 8B at 54.9 tokens a second, eight texts at once at
// 308.7.
constexpr double kThorPassMs = 1e3 / 54.9;
constexpr double kThorPassOf8Ms = 8 * 1e3 / 308.7;

double interpolate(std::span<const RowTime> table, double rows) {
  if (rows <= table.front().rows) return table.front().ms;
  for (std::size_t i = 1; i < table.size(); ++i) {
    const RowTime &low = table[i - 1], &high = table[i];
    if (rows <= high.rows) {
      return low.ms + (high.ms - low.ms) * (rows - low.rows) / (high.rows - low.rows);
    }
  }
  return table.back().ms;
}

PaceCurve make_curve(std::vector<PaceCurve::Point> points) {
  Result<PaceCurve> curve = PaceCurve::create(std::move(points));
  OUTRIDER_CHECK(curve.ok());
  return *std::move(curve);
}

double implied_ar_ms(const PaperPace& pace) {
  if (!pace.paper) return 0;
  const double round = 2 * pace.one_way_ms + kPaperGamma * pace.step_ms + pace.pass_ms;
  return round / pace.paper->tau * pace.paper->ar_to_sd;
}

// Vicuna and Llama 2 of 7B and 13B, and Qwen2-VL of 7B.
int layers_of_target(const std::string& pace) {
  if (pace.ends_with("13b")) return 40;
  return pace == "go2-qwen2vl" ? 28 : 32;
}

// T_c of the same pair on InfiniBand. The robot's target has none there, so it uses that of the
// other 7B target with a draft trained for it.
double software_ms_of(const std::string& pace) {
  if (pace.ends_with("13b")) return 46;
  return pace.ends_with("68m-7b") ? 42 : 47;
}

// Table 6 prints 0.94 as the average speed-up from AR to SD of rtx-160m-13b. The mean of its own
// six rows is 0.81; all other averages there are the mean of their rows.
std::vector<PaperPace> make_paces() {
  std::vector<PaperPace> paces = {
      {"jetson-68m-7b", 334.0 / 4, 497, 95, PaceGroup::kTables5And8,
       PaperResults{0.69, 1.04, 2.15, 0.6561, 8}},
      {"rtx-68m-7b", 102.0 / 4, 442, 42, PaceGroup::kTables5And8,
       PaperResults{1.20, 1.06, 2.10, 0.1959, 14}},
      {"jetson-160m-13b", 1596.0 / 4, 616, 91, PaceGroup::kTables5And8,
       PaperResults{0.42, 1.05, 2.25, 0.6205, 8}},
      {"rtx-160m-13b", 555.0 / 4, 618, 46, PaceGroup::kTables5And8,
       PaperResults{0.81, 1.10, 2.40, 0.2795, 14}},
      {"jetson-68m-llama2-7b", 301.0 / 4, 522, 96, PaceGroup::kTables5And8,
       PaperResults{1.35, 1.11, 4.03, 0.3994, 9}},
      {"rtx-68m-llama2-7b", 99.0 / 4, 467, 47, PaceGroup::kTables5And8,
       PaperResults{1.94, 1.06, 3.54, 0.0963, 9}},
      {"go2-qwen2vl", 288.0 / 4, 620, 120, PaceGroup::kTables5And8,
       PaperResults{0.90, 1.34, 2.92, 0.5563, 8}},
      {"table9-5ms", 7.76, 17.94, 5, PaceGroup::kTable9, std::nullopt},
      {"table9-42ms", 7.76, 17.94, 42, PaceGroup::kTable9, std::nullopt},
      {"table9-95ms", 7.76, 17.94, 95, PaceGroup::kTable9, std::nullopt},
      {"orin-nano", kOrinNanoStepMs, kA100.front().ms, 5, PaceGroup::kOf2026, std::nullopt},
      {"agx-orin", kAgxOrinStepMs, kA100.front().ms, 5, PaceGroup::kOf2026, std::nullopt},
      {"thor", kThorStepMs, kA100.front().ms, 5, PaceGroup::kOf2026, std::nullopt},
      {"unpaced", 0, 0, 0, PaceGroup::kUnpaced, std::nullopt},
  };
  for (PaperPace& pace : paces) {
    pace.ar_ms = implied_ar_ms(pace);
    pace.target_layers = layers_of_target(pace.name);
    if (pace.paper) pace.software_ms = software_ms_of(pace.name);
  }
  return paces;
}

}  // namespace

const std::vector<PaperPace>& paper_paces() {
  static const std::vector<PaperPace> paces = make_paces();
  return paces;
}

namespace {

bool is_the_papers(const PaperPace& pace) {
  return pace.group == PaceGroup::kTables5And8 || pace.group == PaceGroup::kTable9;
}

std::string names_of_all() {
  std::string names = "all, table9";
  for (const PaperPace& pace : paper_paces()) names += ", " + pace.name;
  return names;
}

}  // namespace

Result<std::vector<PaperPace>> find_paces(const std::vector<std::string>& names) {
  std::vector<PaperPace> found;
  for (const std::string& name : names) {
    bool known = false;
    for (const PaperPace& pace : paper_paces()) {
      const bool named = name == pace.name || (name == "all" && is_the_papers(pace)) ||
                         (name == "table9" && pace.group == PaceGroup::kTable9);
      known = known || named;
      const bool twice = std::any_of(found.begin(), found.end(),
                                     [&](const PaperPace& one) { return one.name == pace.name; });
      if (named && !twice) found.push_back(pace);
    }
    if (!known) {
      return invalid_argument("--pace " + name + ": not known; there are " + names_of_all());
    }
  }
  return found;
}

double table9_pass_ms(double rows) {
  return interpolate(kA100, rows);
}

double table9_step_ms(double rows) {
  return interpolate(kJetson, rows);
}

std::string device_of(std::string_view pace) {
  if (pace.starts_with("table9-")) return "table9";
  return std::string(pace.substr(0, pace.find('@')));
}

PaperPace at_distance(const PaperPace& pace, double one_way_ms) {
  PaperPace moved = pace;
  std::ostringstream name;
  name << pace.name << "@" << one_way_ms << "ms";
  moved.name = name.str();
  moved.one_way_ms = one_way_ms;
  moved.software_ms = 0;
  if (pace.group == PaceGroup::kTables5And8) moved.group = PaceGroup::kOther;
  moved.paper.reset();
  return moved;
}

PaperPace with_link(const PaperPace& pace, PaceLink link) {
  if (link == PaceLink::kWhole || pace.software_ms <= 0) return pace;
  PaperPace near = at_distance(pace, pace.one_way_ms - pace.software_ms);
  near.name = pace.name + " distance";
  near.software_ms = 0;
  return near;
}

PaperPace with_times(const PaperPace& pace, PassTimes times) {
  PaperPace timed = pace;
  timed.times = times;
  const bool known_twice = pace.group == PaceGroup::kTables5And8 || pace.group == PaceGroup::kOther;
  if (times == PassTimes::kPrinted && known_twice) timed.name += " printed";
  return timed;
}

PaceCurve strong_edge_pass() {
  return make_curve({{1, kThorPassMs}, {8, kThorPassOf8Ms}});
}

PaceCurve strong_edge_step() {
  return make_curve({{1, kThorStepMs}});
}

PaceCurve pass_curve(const PaperPace& pace) {
  if (pace.pass_ms <= 0) return {};
  const bool by_row = pace.group == PaceGroup::kTable9 || pace.group == PaceGroup::kOf2026;
  const bool printed = pace.times == PassTimes::kPrinted;
  const std::int64_t first_rows = by_row || !printed ? 1 : kPaperGamma + 1;
  const double first_ms = by_row || printed ? pace.pass_ms : pace.ar_ms;
  const double unit = first_ms / table9_pass_ms(static_cast<double>(first_rows));
  std::vector<PaceCurve::Point> points = {{first_rows, first_ms}};
  for (const RowTime& point : kA100) {
    const auto rows = static_cast<std::int64_t>(point.rows);
    if (rows > first_rows) points.push_back({rows, unit * point.ms});
  }
  points.push_back({points.back().rows + 1, unit * table9_pass_ms(kPaperGamma + 1)});
  return make_curve(std::move(points));
}

PaceCurve step_curve(const PaperPace& pace) {
  if (pace.step_ms <= 0) return {};
  std::vector<PaceCurve::Point> points;
  for (const RowTime& point : kJetson) {
    points.push_back(
        {static_cast<std::int64_t>(point.rows), pace.step_ms * point.ms / kJetson.front().ms});
  }
  return make_curve(std::move(points));
}

}  // namespace outrider
