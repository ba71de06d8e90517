// The file behind --trace: what happened when in all answers so far.
//
// Thread rule: the session's. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/status.h"
#include "edge_client/flash/stream_log.h"
#include "edge_client/metrics/timeline_recorder.h"

namespace outrider {

class TraceFile final {
 public:
  // Empty: nothing is recorded or written.
  explicit TraceFile(std::string path) : path_(std::move(path)) {}

  // Null without a path.
  SessionObserver* observer() { return path_.empty() ? nullptr : &recorder_; }

  // Adds the work of the streamed target's passes to the file. log: outlives this.
  void watch(StreamLog& log);

  // Whether write() may write: told before an answer is computed.
  Status check() const;
  Status write();

 private:
  const std::string path_;
  Timeline timeline_;
  TimelineRecorder recorder_{timeline_};
  StreamLog* stream_ = nullptr;  // null: no target is streamed
};

}  // namespace outrider
