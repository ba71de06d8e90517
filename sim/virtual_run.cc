// SPDX-License-Identifier: Apache-2.0
#include "sim/virtual_run.h"

#include <algorithm>
#include <cmath>

namespace outrider {
namespace {

// Draft steps are shorter than so many passes' computing.
constexpr std::size_t kBusyKept = 4096;

}  // namespace

FlashDevice::FlashDevice(const FlashPace& pace) : pace_(pace) {
  const auto resident = static_cast<int>(std::lround(pace.resident * pace.layers));
  const double share = (1 - pace.head_share) / pace.layers;
  for (int layer = 0; layer < pace.layers; ++layer) {
    sections_.push_back({from_ms(layer < resident ? 0 : pace.read_ms * share), share});
  }
  // With all layers in memory the output matrix is in memory too.
  const bool streams = resident < pace.layers;
  sections_.push_back({from_ms(streams ? pace.read_ms * pace.head_share : 0), pace.head_share});
}

// When the section is in memory, for a pass that could use it at `wanted`.
TimePoint FlashDevice::read_section(const Section& section, TimePoint wanted) {
  TimePoint begin = reader_free_;
  if (!pace_.overlapped) begin = std::max(begin, wanted);
  if (released_.size() == static_cast<std::size_t>(pace_.buffers)) {
    begin = std::max(begin, released_.front());
    released_.pop_front();
  }
  reading_ += section.read;
  return reader_free_ = begin + section.read;
}

Duration FlashDevice::pass(TimePoint now, const PassRowCounts& rows, std::int32_t layers) {
  const double whole = pace_.compute.ms(static_cast<std::int64_t>(rows.rows));
  const double rest = pace_.compute.ms(static_cast<std::int64_t>(rows.left));
  // The real model's layers correspond to equal shares of the emulated model's.
  const auto section_behind = [&](std::int32_t layer) {
    return static_cast<std::size_t>(pace_.layers * layer / layers);
  };
  const std::size_t ended_after = section_behind(rows.ended_after);
  TimePoint at = now;
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    const Section& section = sections_[i];
    const double compute = i < ended_after ? whole : rest;
    const bool streamed = section.read > Duration{0};
    if (streamed) at = std::max(at, read_section(section, at));
    double ms = compute * section.compute_share;
    for (const PassRowCounts::Head& head : rows.heads) {
      if (section_behind(head.layer) != i + 1) continue;
      ms += pace_.head_share * pace_.compute.ms(static_cast<std::int64_t>(head.rows));
    }
    const TimePoint done = at + from_ms(ms);
    busy_.emplace_back(at, done);
    computed_.push_back({at, done});
    at = done;
    if (streamed) released_.push_back(done);
  }
  while (busy_.size() > kBusyKept) busy_.pop_front();
  return at - now;
}

Duration FlashDevice::left_for_draft(TimePoint from, TimePoint to) const {
  Duration left = std::max(to - from, Duration{0});
  for (const auto& [begin, end] : busy_) {
    left -= std::max(std::min(end, to) - std::max(begin, from), Duration{0});
  }
  return left;
}

namespace {

// No answer of a correct set-up takes this long at any pace.
constexpr Duration kDeadlock = std::chrono::hours(24);

class NoText final : public AnswerText {
 public:
  Update push(TokenId) override { return {}; }
  std::string finish() override { return {}; }
};

SimDraft::StepTime by_rows(const PaceCurve& curve) {
  return [&curve](std::size_t rows) { return from_ms(curve.ms(static_cast<std::int64_t>(rows))); };
}

Activity activity_of(const SimEdge& edge, const SimServer& server, const SimLink& link,
                     const FlashDevice* flash, TimePoint end) {
  return {.end = end,
          .draft = edge.draft().busy(),
          .target = flash != nullptr ? flash->computed() : server.busy_passes(),
          .beside = server.busy_drafts(),
          .messages = link.messages(),
          .flash_reading = flash != nullptr ? flash->reading() : Duration{0}};
}

}  // namespace

Result<VirtualAnswer> answer_in_virtual_time(const VirtualDevices& devices, SimEdgeSetup setup,
                                             AnswerText* text) {
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
                   devices.exit_cost, by_rows(devices.server_step));
  SimLink link(simulation, server, devices.link);
  setup.step_takes = by_rows(devices.step);
  NoText unread;
  SimEdgeObserver observer;
  SimEdge edge(simulation, link, devices.draft, text != nullptr ? *text : unread, std::move(setup),
               observer);
  edge.begin();
  const TimePoint deadline = simulation.now() + kDeadlock;
  while (!edge.done()) {
    if (!simulation.step(deadline)) return unavailable("nothing arrives over the simulated link");
  }
  OUTRIDER_RETURN_IF_ERROR(edge.finish().status);
  const DecodingSession& session = edge.session();
  const ModelDraft* const beside = server.scheduler().model_draft();
  return VirtualAnswer{
      .ids = session.answer(),
      .stats = session.stats(),
      .finish = edge.finish(),
      .target = session.opened().model_name,
      .speculation_ended = session.speculation().ended(),
      .bytes_up = link.counts().bytes_up,
      .bytes_down = link.counts().bytes_down,
      .pruned = server.scheduler().stats().pruned,
      .draft_experience = beside != nullptr ? beside->experience() : DraftExperience(),
      .given = edge.deadline() != nullptr ? edge.deadline()->given() : std::nullopt,
      .activity = activity_of(edge, server, link, devices.flash, simulation.now())};
}

}  // namespace outrider
