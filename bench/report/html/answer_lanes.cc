// SPDX-License-Identifier: Apache-2.0
#include "bench/report/html/answer_lanes.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "adapters/plot/line_plot.h"
#include "bench/report/html/charts.h"
#include "bench/report/html/markup.h"
#include "common/base/json_record.h"

namespace outrider {
namespace {

// An event of a trace, and the name of its track in the event that names it.
struct TraceEvent {
  std::string name;
  std::string kind;
  int track = 0;
  double microseconds = 0;
  double length = 0;
};

Result<TraceEvent> read_event(const Json& json) {
  if (!json.is_object()) return data_loss("a trace has an event that is no JSON object");
  TraceEvent event;
  event.name = json.value("name", "");
  event.kind = json.value("ph", "");
  event.track = json.value("tid", 0);
  event.microseconds = json.value("ts", 0.0);
  event.length = json.value("dur", 0.0);
  return event;
}

void place(const TraceEvent& event, const std::string& track, AnswerLanes& lanes) {
  const double at = event.microseconds / 1e3, end = at + event.length / 1e3;
  if (track == "draft model") {
    lanes.drafting.push_back({at, end, event.name});
  } else if (track == "target passes") {
    lanes.passes.push_back({at, end, event.name});
  } else if (track == "sent" && event.name.starts_with("Grow")) {
    lanes.rounds.push_back({at, event.name});
  } else if (track == "heard" && event.name.starts_with("verdict")) {
    lanes.verdicts.push_back({at, event.name});
  } else if (track == "heard" && !event.name.ends_with("started")) {
    lanes.reports.push_back({at, event.name});
  }
}

// A trace begins with its first event; the first tokens arrived with the first verdict.
void count_from_request(double first_arrival_ms, AnswerLanes& lanes) {
  const double shift = first_arrival_ms - lanes.verdicts.front().at_ms;
  for (auto* spans : {&lanes.drafting, &lanes.passes}) {
    for (LaneSpan& span : *spans) {
      span.begin_ms += shift;
      span.end_ms += shift;
    }
  }
  for (auto* moments : {&lanes.rounds, &lanes.reports, &lanes.verdicts}) {
    for (LaneMoment& moment : *moments) moment.at_ms += shift;
  }
}

}  // namespace

Result<AnswerLanes> lanes_of(const EdgeAnswer& answer) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json trace, parse_json(answer.trace, "a trace"));
  if (!trace.is_object() || !trace.contains("traceEvents")) {
    return data_loss("a trace lacks \"traceEvents\"");
  }
  std::map<int, std::string> tracks;
  AnswerLanes lanes;
  for (const Json& json : trace["traceEvents"]) {
    OUTRIDER_ASSIGN_OR_RETURN(const TraceEvent event, read_event(json));
    if (event.kind == "M" && event.name == "thread_name" && json.contains("args")) {
      tracks[event.track] = json["args"].value("name", "");
    } else {
      place(event, tracks[event.track], lanes);
    }
  }
  if (lanes.verdicts.empty() || answer.record.stats.chunk_at.empty()) return AnswerLanes{};
  count_from_request(to_ms(answer.record.stats.chunk_at.front()), lanes);
  return lanes;
}

namespace {

constexpr double kPlotWidth = 640, kPlotLeft = 70, kPlotRight = 12;
constexpr double kTitleRoom = 24, kLaneHeight = 22, kWay = 34, kAxisRoom = 40;
constexpr double kEdgeTop = kTitleRoom, kCloudTop = kEdgeTop + kLaneHeight + kWay;
constexpr double kAxis = kCloudTop + kLaneHeight + 6;
constexpr std::size_t kShownVerdicts = 10;  // more would be illegible
constexpr std::size_t kDraftColour = 2, kPassColour = 0, kWayColour = 7;

struct TracedAnswer {
  const FinishedAnswer* answer = nullptr;
  AnswerLanes lanes;
};

// One answer's lanes over a stretch of time.
class LanePlot final {
 public:
  LanePlot(const TracedAnswer& traced, double one_way_ms, double end_ms)
      : lanes_(traced.lanes), one_way_ms_(one_way_ms), end_ms_(end_ms) {}

  std::string svg(const std::string& title) const {
    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"{}\" fill=\"currentColor\" "
        "font-family=\"sans-serif\" font-size=\"12\">",
        kPlotWidth, kAxis + kAxisRoom, html_escaped(title));
    svg += svg_text(4, 14, "start", title);
    svg += svg_text(kPlotLeft - 8, kEdgeTop + 15, "end", "edge");
    svg += svg_text(kPlotLeft - 8, kCloudTop + 15, "end", "cloud");
    for (const LaneMoment& round : lanes_.rounds) svg += way_up(round);
    for (std::size_t i = 0; i < std::min(lanes_.passes.size(), lanes_.verdicts.size()); ++i) {
      svg += way_down(lanes_.passes[i], lanes_.verdicts[i]);
    }
    for (const LaneSpan& step : lanes_.drafting) svg += box(step, kEdgeTop, kDraftColour);
    for (const LaneSpan& pass : lanes_.passes) svg += box(pass, kCloudTop, kPassColour);
    for (const LaneMoment& report : lanes_.reports) svg += dot(report);
    return svg + axis() + "</svg>";
  }

 private:
  double x(double ms) const {
    return kPlotLeft + std::clamp(ms / end_ms_, 0.0, 1.0) * (kPlotWidth - kPlotLeft - kPlotRight);
  }

  std::string box(const LaneSpan& span, double top, std::size_t colour) const {
    if (span.begin_ms > end_ms_) return "";
    return fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\">"
        "<title>{}</title></rect>",
        x(span.begin_ms), top, std::max(x(span.end_ms) - x(span.begin_ms) - 0.5, 0.7), kLaneHeight,
        plot_colour(colour), html_escaped(span.what));
  }

  // A message that has not arrived at the end is cut off there.
  std::string way(double from_ms, double from_y, double to_ms, double to_y, bool dashed,
                  const std::string& what) const {
    if (from_ms > end_ms_) return "";
    if (to_ms > end_ms_) to_y = from_y + (to_y - from_y) * (end_ms_ - from_ms) / (to_ms - from_ms);
    return fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"{}><title>{}"
        "</title></line>",
        x(from_ms), from_y, x(to_ms), to_y, plot_colour(kWayColour),
        dashed ? " stroke-dasharray=\"3 2\"" : "", html_escaped(what));
  }

  std::string way_up(const LaneMoment& round) const {
    return way(round.at_ms, kEdgeTop + kLaneHeight, round.at_ms + one_way_ms_, kCloudTop, false,
               round.what);
  }
  std::string way_down(const LaneSpan& pass, const LaneMoment& verdict) const {
    return way(pass.end_ms, kCloudTop, verdict.at_ms, kEdgeTop + kLaneHeight, true, verdict.what);
  }

  std::string dot(const LaneMoment& report) const {
    if (report.at_ms > end_ms_) return "";
    return fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"1.6\" fill=\"{}\"><title>{}</title></circle>",
        x(report.at_ms), kEdgeTop + kLaneHeight + 4, plot_colour(1), html_escaped(report.what));
  }

  std::string axis() const {
    std::string svg = fmt::format(
        "<line class=\"grid\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#ddd\"/>", kPlotLeft,
        kAxis, kPlotWidth - kPlotRight, kAxis);
    for (const double ms : round_ticks(end_ms_)) {
      svg += svg_text(x(ms), kAxis + 16, "middle", fmt::format("{:.3g}", ms / 1e3));
    }
    return svg + svg_text((kPlotLeft + kPlotWidth) / 2, kAxis + 32, "middle",
                          "seconds since the request");
  }

  const AnswerLanes& lanes_;
  const double one_way_ms_;
  const double end_ms_;
};

// Variants with the draft on the edge, in the run's order.
std::vector<TracedAnswer> traced_answers(const RunReport& report) {
  std::vector<TracedAnswer> traced;
  for (const FinishedAnswer& one : report.examples) {
    if (one.failed() || one.answer.trace.empty()) continue;
    Result<AnswerLanes> lanes = lanes_of(one.answer);
    if (lanes.ok() && !lanes->verdicts.empty()) traced.push_back({&one, *std::move(lanes)});
  }
  std::ranges::sort(traced, {}, [](const TracedAnswer& one) { return one.answer->job.variant; });
  return traced;
}

const CellReport* cell_of(const FinishedAnswer& answer, const RunReport& report) {
  const std::string& setting = report.setting_names[answer.job.setting];
  const std::string& variant = report.variant_names[answer.job.variant];
  const auto found = std::ranges::find_if(report.cells, [&](const CellReport& cell) {
    return cell.setting->name == setting && cell.variant->name == variant;
  });
  return found == report.cells.end() ? nullptr : &*found;
}

// Until the slowest variant has this many verdicts.
double shown_ms(const std::vector<TracedAnswer>& traced) {
  double end = 1;
  for (const TracedAnswer& one : traced) {
    const auto& verdicts = one.lanes.verdicts;
    end = std::max(end, verdicts[std::min(kShownVerdicts, verdicts.size()) - 1].at_ms);
  }
  return end;
}

}  // namespace

std::string answer_timeline(const RunReport& report) {
  const std::vector<TracedAnswer> traced = traced_answers(report);
  const double end_ms = shown_ms(traced);
  std::string lanes;
  for (const TracedAnswer& one : traced) {
    const CellReport* cell = cell_of(*one.answer, report);
    if (cell == nullptr || cell->variant->place != DraftPlace::kEdge) continue;
    const LanePlot plot(one, round_trip_ms(*cell) / 2, end_ms);
    lanes += captioned(plot.svg(cell->variant->name + ": " + cell->setting->name),
                       "Green: draft steps. Blue: passes of the target. Lines: rounds on their way "
                       "up; dashed: verdicts on their way down; red dots: exit reports.");
  }
  return lanes.empty() ? "" : "<div class=\"lanes\">" + lanes + "</div>";
}

namespace {

constexpr double kWidth = 640, kLeft = 110, kRight = 16, kLane = 44, kTop = 24;

double end_ms(const AnswerRecord& record) {
  return record.stats.chunk_at.empty() ? 0 : to_ms(record.stats.chunk_at.back());
}

// One bar per arrival; its height is the number of tokens.
std::string lane(const AnswerRecord& record, const std::string& name, std::size_t place, double top,
                 double ms_per_px) {
  std::string svg = svg_text(kLeft - 8, top + kLane - 12, "end", name);
  const double floor = top + kLane - 8;
  svg += fmt::format(
      "<line class=\"grid\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>",
      kLeft, floor, kWidth - kRight, floor);
  for (std::size_t i = 0; i < record.stats.chunk_at.size() && i < record.stats.chunk_tokens.size();
       ++i) {
    const double tokens =
        static_cast<double>(std::min<std::uint64_t>(record.stats.chunk_tokens[i], 8));
    const double height = 4 + tokens * 3.5;
    svg +=
        fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"2\" height=\"{:.1f}\" fill=\"{}\"/>",
                    kLeft + to_ms(record.stats.chunk_at[i]) / ms_per_px, floor - height, height,
                    plot_colour(curve_style(place).colour));
  }
  return svg + svg_text(std::min(kLeft + end_ms(record) / ms_per_px + 6, kWidth - 50), floor - 2,
                        "start", fmt::format("{:.2f} s", end_ms(record) / 1e3));
}

std::string arrivals_of(const std::vector<const FinishedAnswer*>& answers, const RunReport& report,
                        const std::string& title) {
  double longest = 1;
  for (const FinishedAnswer* one : answers) longest = std::max(longest, end_ms(one->answer.record));
  const double ms_per_px = longest / (kWidth - kLeft - kRight - 60);
  const double floor = kTop + kLane * static_cast<double>(answers.size());
  const double height = floor + 40;
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"{}\" fill=\"currentColor\" "
      "font-family=\"sans-serif\" font-size=\"12\">",
      kWidth, height, html_escaped(title));
  svg += svg_text(4, 14, "start", title);
  double top = kTop;
  for (const FinishedAnswer* one : answers) {
    svg += lane(one->answer.record, report.variant_names[one->job.variant], one->job.variant, top,
                ms_per_px);
    top += kLane;
  }
  for (const double ms : round_ticks(longest)) {
    svg += svg_text(kLeft + ms / ms_per_px, floor + 14, "middle", fmt::format("{:.3g}", ms / 1e3));
  }
  svg +=
      svg_text(kLeft + longest / 2 / ms_per_px, floor + 30, "middle", "seconds since the request");
  return svg + "</svg>";
}

}  // namespace

std::string arrival_lanes(const RunReport& report) {
  std::string lanes = "<div class=\"lanes\">";
  for (std::size_t setting = 0; setting < report.setting_names.size(); ++setting) {
    std::vector<const FinishedAnswer*> answers;
    for (const FinishedAnswer& one : report.examples) {
      if (one.job.setting == setting && !one.failed()) answers.push_back(&one);
    }
    std::ranges::sort(answers, {}, [](const FinishedAnswer* one) { return one->job.variant; });
    if (answers.empty()) continue;
    lanes += captioned(arrivals_of(answers, report, report.setting_names[setting]),
                       "Arrivals of tokens at the user, one lane per strategy; a bar's height is "
                       "the number of tokens that arrived at once.");
  }
  return lanes + "</div>";
}

}  // namespace outrider
