// SPDX-License-Identifier: Apache-2.0
#include "bench/report/answer_lanes.h"

#include <map>

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
  if (lanes.verdicts.empty() || answer.record.chunk_at.empty()) return AnswerLanes{};
  count_from_request(to_ms(answer.record.chunk_at.front()), lanes);
  return lanes;
}

}  // namespace outrider
