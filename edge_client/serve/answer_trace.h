// The spans of one answer of this edge: the request, its wait in the queue, one stream for each
// connection to a verifier, with prefill and rounds, and each failover.
//
// Thread rule: one thread at a time. Ownership: the tracer outlives it. The destructor ends what
// has not ended. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "common/base/clock.h"
#include "common/serving/tracing/stream_spans.h"
#include "common/serving/tracing/tracer.h"
#include "edge_client/report/answer_report.h"
#include "edge_client/session/events.h"

namespace outrider {

class AnswerTrace final {
 public:
  // request: its span, begun.
  AnswerTrace(Tracer& tracer, TraceSpan request) : tracer_(tracer), request_(std::move(request)) {}
  ~AnswerTrace();
  AnswerTrace(const AnswerTrace&) = delete;
  AnswerTrace& operator=(const AnswerTrace&) = delete;

  // Its turn has come.
  void begin(TimePoint now);
  void on_connect(const Connect& connect, TimePoint now);
  void on_event(const SessionEvent& event, TimePoint now);
  void end(const Result<AnswerReport>& report, TimePoint now);

 private:
  Tracer& tracer_;
  TraceSpan request_;
  bool ended_ = false;

  // The spans of the stream that is open.
  std::unique_ptr<StreamSpans> stream_;  // null: there is none
  std::uint32_t epoch_ = 0;
  Route route_ = Route::kOnline;
  std::optional<TraceSpan> failover_;  // until the other verifier's first verdict
};

}  // namespace outrider
