// The spans of one stream of a verifier: the stream itself, its prefill, and each pass, with the
// early exits that reported in it.
//
// Thread rule: one thread at a time. Ownership: the tracer outlives it. The destructor ends a
// stream that has not ended. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/decoding/protocol/verifier.h"
#include "common/serving/tracing/tracer.h"

namespace outrider {

class StreamSpans final {
 public:
  // The most spans of one stream; further passes are only counted, on the stream's span.
  static constexpr std::uint64_t kMaxPasses = 256;

  // stream: its span, begun. pass: the name of the spans of its passes.
  StreamSpans(Tracer& tracer, TraceSpan stream, std::string pass);
  ~StreamSpans();
  StreamSpans(const StreamSpans&) = delete;
  StreamSpans& operator=(const StreamSpans&) = delete;

  void on(const VerifierEvent& event, TimePoint now);
  const TraceSpan& span() const { return stream_; }

 private:
  void on_message(const Opened& opened);
  void on_message(const Started& started);
  void on_message(const ExitReport& report);
  void on_message(const Verdict& verdict);
  void on_message(const Usage& usage);
  void on_message(const Notice& notice);
  void on_message(const Progress&) {}
  void on_message(const PromptLogprobs&) {}
  void end(const std::string& error);

  Tracer& tracer_;
  TraceSpan stream_;
  const std::string pass_name_;
  TimePoint now_;                               // of the event at hand
  std::optional<TimePoint> opened_at_;          // nothing: it waits for a place
  std::optional<TimePoint> pass_began_;         // of the pass that runs
  std::vector<TraceSpan::Event> exit_reports_;  // in it
  std::uint64_t passes_ = 0;
  bool ended_ = false;
};

// "stop", "length", ..
const char* finish_reason(FinishReason reason);

}  // namespace outrider
