// The verifying engine in a simulation: the real scheduler, sessions and pass runner, with events
// in place of the thread. The same face as VerifyEngine, with its streams' report channels. Early
// exits all report at one random moment of the turn; what the window then holds back goes as
// acknowledgements arrive.
//
// Thread rule: one thread. Ownership: simulation and model outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/verify/engine.h"
#include "common/verify/scheduler.h"
#include "tests/sim/simulation.h"

namespace outrider {

class SimServer final {
 public:
  // Each turn of the device takes between these, or what `takes` says for its rows.
  struct Pace {
    Duration shortest = from_ms(1);
    Duration longest = from_ms(20);
    std::function<Duration(std::size_t rows)> takes = {};
  };

  SimServer(Simulation& simulation, Model& model, const SchedulerOptions& options, Pace pace);

  StreamId connect(VerifyEngine::EventSink sink);
  void post(StreamId stream, EdgeMessage message);
  void disconnect(StreamId stream);

  // Called with the session of the stream after each message applied and each turn ended.
  std::function<void(StreamId, const VerifySession&)> observe;

  const Scheduler& scheduler() const { return scheduler_; }

 private:
  struct Stream {
    VerifyEngine::EventSink sink;
    std::shared_ptr<ExitReportChannel> reports;
  };

  void apply(const std::function<void()>& input);  // now, or when the device is done
  void go_on();
  void finish_turn();
  void emit(StreamId stream, VerifierEvent event);
  void deliver();
  void note_rows(const StreamEvent& event);
  void show(StreamId stream);

  Simulation& simulation_;
  Pace pace_;
  const ReportQueue report_queue_;
  Scheduler scheduler_;
  std::map<StreamId, Stream> streams_;
  StreamId next_stream_ = 1;
  bool busy_ = false;
  std::vector<std::function<void()>> waiting_;  // inputs, while busy
  std::uint64_t timer_ = 0;                     // only the newest timer counts
};

}  // namespace outrider
