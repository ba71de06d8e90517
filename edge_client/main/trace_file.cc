// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/trace_file.h"

#include <fstream>
#include <utility>

namespace outrider {
namespace {

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

Status TraceFile::write() {
  if (path_.empty()) return {};
  if (stream_ != nullptr) {
    for (StreamSpan& span : stream_->take_spans()) {
      timeline_.span(track_of(span.lane), std::move(span.what), span.begin, span.length);
    }
  }
  std::ofstream file(path_, std::ios::binary);
  file << timeline_.chrome_trace();
  file.close();
  if (file) return {};
  return invalid_argument("--trace " + path_ + ": cannot be written");
}

}  // namespace outrider
