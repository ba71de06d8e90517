// Spans of requests, sampled, and sent in batches by a thread of its own.
//
//   Tracer tracer(sampler, send, log);
//   const Trace trace = tracer.begin(headers);      // of a request that came
//   if (trace.context.sampled) ..  tracer.add(span);
//
// Nothing here waits for the collector: spans wait in a queue, and those that find it full are
// dropped. So is a batch that cannot be sent; then the next is tried after a pause that doubles.
// Both are counted.
//
// Thread rule: any thread; `send` and `log` are called on the tracer's. The destructor sends what
// is left, for two seconds at most. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/serving/tracing/trace_context.h"

namespace outrider {

using SpanValue = std::variant<std::string, std::int64_t, double, bool, std::vector<std::string>>;
using SpanAttributes = std::vector<std::pair<std::string, SpanValue>>;

// By OpenTelemetry's names (semantic conventions for GenAI), or ours, which begin with "outrider.".
struct TraceSpan {
  enum class Kind : std::uint8_t { kInternal = 1, kServer = 2 };  // numbers of OTLP
  struct Event {
    std::string name;
    TimePoint at{};
    SpanAttributes attributes = {};
  };

  TraceContext context = {};
  SpanId parent = {};  // zeros: none
  std::string name = {};
  Kind kind = Kind::kInternal;
  TimePoint begin{};
  TimePoint end{};
  SpanAttributes attributes = {};
  std::vector<Event> events = {};
  std::string error = {};  // empty: it ended well

  void set(std::string key, SpanValue value) {
    attributes.emplace_back(std::move(key), std::move(value));
  }
};

// Which requests are traced.
struct Sampler {
  bool asks_parent = true;  // one that came with a context is traced as that says
  double ratio = 1;         // of the others; 0: none
};

// The span that answers a request, and that of its client.
struct Trace {
  TraceContext context;
  SpanId parent{};  // zeros: none
};

class Tracer final {
 public:
  static constexpr std::size_t kMaxQueued = 2048;
  static constexpr std::size_t kMaxBatch = 512;

  // Blocks while it sends, until a stop is requested at the latest. Returns how many of the spans
  // the collector rejected.
  using Send = std::function<Result<std::uint64_t>(const std::vector<TraceSpan>&, std::stop_token)>;
  using Log = std::function<void(const std::string&)>;
  struct Counts {
    std::uint64_t exported = 0;
    std::uint64_t dropped = 0;    // for want of room, or because the collector did not take them
    std::uint64_t malformed = 0;  // contexts that came and were ignored
  };

  Tracer(Sampler sampler, Send send, Log log);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // For a request that came with these headers. One that is not sampled has a context too, which
  // its calls pass on.
  Trace begin(const TraceHeaders& from);
  void add(TraceSpan span);
  Counts counts() const;

  // A span below another, of the same trace.
  static TraceSpan child_of(const TraceSpan& parent, std::string name, TimePoint begin);

 private:
  void run();
  std::vector<TraceSpan> take_batch() OUTRIDER_REQUIRES(mu_);
  // How long to wait before the next.
  Duration send_batch(const std::vector<TraceSpan>& batch, Duration pause);

  const Sampler sampler_;
  const Send send_;
  const Log log_;
  std::atomic<std::uint64_t> exported_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::uint64_t> malformed_{0};

  Mutex mu_;
  CondVar changed_;
  std::vector<TraceSpan> queue_ OUTRIDER_GUARDED_BY(mu_);
  bool ending_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool ended_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::stop_source cut_;
  std::thread thread_;
};

}  // namespace outrider
