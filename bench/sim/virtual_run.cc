// SPDX-License-Identifier: Apache-2.0
#include "bench/sim/virtual_run.h"

#include <utility>

namespace outrider {
namespace {

// No answer of a sound set-up takes that long, whatever the pace.
constexpr Duration kDeadlock = std::chrono::hours(24);

class NoText final : public AnswerText {
 public:
  Update push(TokenId) override { return {}; }
  std::string finish() override { return {}; }
};

SimDraft::StepTime by_rows(const PaceCurve& curve) {
  return [&curve](std::size_t rows) { return from_ms(curve.ms(static_cast<std::int64_t>(rows))); };
}

}  // namespace

Result<VirtualAnswer> answer_in_virtual_time(const VirtualDevices& devices, SimEdgeSetup setup) {
  Simulation simulation(0);
  SimServer::PassTime pass = [&devices](const PassRowCounts& rows) {
    return from_ms(devices.pass.ms(static_cast<std::int64_t>(rows.rows)));
  };
  if (FlashDevice* flash = devices.flash) {
    const std::int32_t layers = devices.target.info().num_layers;
    pass = [flash, layers, &simulation](const PassRowCounts& rows) {
      return flash->pass(simulation.now(), rows, layers);
    };
    setup.draft_share = [flash](TimePoint from, TimePoint to) {
      return flash->left_for_draft(from, to);
    };
  }
  SimServer server(simulation, devices.target, devices.scheduling, std::move(pass),
                   devices.exit_cost);
  SimLink link(simulation, server, devices.link);
  setup.step_takes = by_rows(devices.step);
  NoText text;
  SimEdgeObserver observer;
  SimEdge edge(simulation, link, devices.draft, text, std::move(setup), observer);
  edge.begin();
  const TimePoint deadline = simulation.now() + kDeadlock;
  while (!edge.done()) {
    if (!simulation.step(deadline))
      return unavailable("nothing arrives any more over the simulated link");
  }
  OUTRIDER_RETURN_IF_ERROR(edge.finish().status);
  const DecodingSession& session = edge.session();
  return VirtualAnswer{.ids = session.answer(),
                       .stats = session.stats(),
                       .finish = edge.finish(),
                       .target = session.opened().model_name,
                       .speculation_ended = session.speculation().ended(),
                       .bytes_up = link.counts().bytes_up,
                       .bytes_down = link.counts().bytes_down,
                       .pruned = server.scheduler().stats().pruned};
}

}  // namespace outrider
