// SPDX-License-Identifier: Apache-2.0
#include "edge_client/metrics/timeline.h"

#include <algorithm>
#include <utility>

#include "common/base/json.h"

namespace outrider {
namespace {

constexpr int kEdgeProcess = 1;
constexpr int kServerProcess = 2;

struct TrackName {
  Timeline::Track track;
  int process;
  const char* name;
};

constexpr TrackName kTracks[] = {
    {Timeline::Track::kAnswer, kEdgeProcess, "answer"},
    {Timeline::Track::kDraft, kEdgeProcess, "draft model"},
    {Timeline::Track::kSent, kEdgeProcess, "sent"},
    {Timeline::Track::kHeard, kEdgeProcess, "heard"},
    {Timeline::Track::kWaits, kEdgeProcess, "the answer waits for"},
    {Timeline::Track::kPasses, kEdgeProcess, "streamed target"},
    {Timeline::Track::kCores, kEdgeProcess, "streamed target: cores"},
    {Timeline::Track::kDisk, kEdgeProcess, "streamed target: disk"},
    {Timeline::Track::kTarget, kServerProcess, "target passes"},
};

int process_of(Timeline::Track track) {
  return track == Timeline::Track::kTarget ? kServerProcess : kEdgeProcess;
}

Json name_event(const char* kind, int process, int thread, const char* name) {
  return {
      {"ph", "M"}, {"name", kind}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

double microseconds(Duration d) {
  return to_seconds(d) * 1e6;
}

}  // namespace

void Timeline::span(Track track, std::string name, TimePoint begin, Duration length) {
  if (events_.size() == kMaxEvents) return;
  TimePoint& last_end = ends_.at(static_cast<std::size_t>(track));
  const TimePoint end = std::max(begin + length, last_end);
  begin = std::max(begin, last_end);
  events_.push_back({track, std::move(name), begin, end - begin, false});
  last_end = end;
}

void Timeline::mark(Track track, std::string name, TimePoint at) {
  if (events_.size() < kMaxEvents) {
    events_.push_back({track, std::move(name), at, Duration{0}, true});
  }
}

std::string Timeline::chrome_trace() const {
  Json events = Json::array();
  events.push_back(name_event("process_name", kEdgeProcess, 0, "outrider-edge"));
  events.push_back(name_event("process_name", kServerProcess, 0, "outrider-server"));
  for (const TrackName& track : kTracks) {
    events.push_back(
        name_event("thread_name", track.process, static_cast<int>(track.track), track.name));
  }
  TimePoint first = TimePoint::max();
  for (const Event& event : events_) first = std::min(first, event.begin);
  for (const Event& event : events_) {
    Json json = {{"name", event.name},
                 {"ph", event.instant ? "i" : "X"},
                 {"ts", microseconds(event.begin - first)},
                 {"pid", process_of(event.track)},
                 {"tid", static_cast<int>(event.track)}};
    if (event.instant) {
      json["s"] = "t";
    } else {
      json["dur"] = microseconds(event.length);
    }
    events.push_back(std::move(json));
  }
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump();
}

}  // namespace outrider
