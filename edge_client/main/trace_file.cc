// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/trace_file.h"

#include <utility>

#include "common/base/output_file.h"

namespace outrider {
namespace {

constexpr OutputKind kTraceFile{
    .name = "a trace of outrider-edge", .is_earlier = [](std::string_view content) {
      return content.starts_with(R"({"displayTimeUnit":"ms","traceEvents":[)") &&
             content.find("outrider-edge") != std::string_view::npos;
    }};

Timeline::Track track_of(StreamSpan::Lane lane) {
  switch (lane) {
    case StreamSpan::Lane::kPass:
      return Timeline::Track::kPasses;
    case StreamSpan::Lane::kCores:
      return Timeline::Track::kCores;
    case StreamSpan::Lane::kDisk:
      return Timeline::Track::kDisk;
  }
  return Timeline::Track::kPasses;
}

}  // namespace

void TraceFile::watch(StreamLog& log) {
  if (path_.empty()) return;
  log.keep_spans();
  stream_ = &log;
}

Status TraceFile::check() const {
  if (path_.empty()) return {};
  return OutputFile::check(path_, kTraceFile).with_context("--trace");
}

Status TraceFile::write() {
  if (path_.empty()) return {};
  if (stream_ != nullptr) {
    for (StreamSpan& span : stream_->take_spans()) {
      timeline_.span(track_of(span.lane), std::move(span.what), span.begin, span.length);
    }
  }
  return write_output(path_, kTraceFile, timeline_.chrome_trace()).with_context("--trace");
}

}  // namespace outrider
