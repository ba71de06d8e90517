// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/answer_energy.h"

#include <span>

namespace outrider {
namespace {

double seconds_of(TimePoint at) {
  return to_seconds(at.time_since_epoch());
}

void add_spans(std::span<const BusySpan> spans, double bytes_each, DeviceWork& work) {
  for (const BusySpan& span : spans) {
    work.computing.push_back({seconds_of(span.from), seconds_of(span.to)});
  }
  work.dram_bytes += static_cast<double>(spans.size()) * bytes_each;
}

void add_messages(std::span<const Activity::Message> messages, DeviceWork& work) {
  for (const Activity::Message& message : messages) {
    work.messages_at.push_back(seconds_of(message.at));
    (message.up ? work.up_bytes : work.down_bytes) += static_cast<double>(message.bytes);
  }
}

// The prompt goes up at the beginning, and each chunk of tokens comes down.
void add_delivery(const AnswerRecord& record, DeviceWork& work) {
  work.messages_at.push_back(0);
  for (const Duration at : record.stats.chunk_at) work.messages_at.push_back(to_seconds(at));
  work.seconds = work.messages_at.back();
  if (!record.traffic) return;
  work.up_bytes = static_cast<double>(record.traffic->bytes.framed_up);
  work.down_bytes = static_cast<double>(record.traffic->bytes.framed_down);
}

// The whole is computed over time, beside its parts.
AnswerEnergy summed(const EnergyModel& model, const DeviceWork& device, const DeviceWork* server) {
  AnswerEnergy energy{.device = energy_parts(model.device, device),
                      .joules = energy_over_time(model.device, device)};
  if (server != nullptr && model.server) {
    energy.server = energy_parts(*model.server, *server);
    energy.joules += energy_over_time(*model.server, *server);
  }
  return energy;
}

}  // namespace

AnswerEnergy energy_of(const EnergyModel& model, DraftPlace place, const Activity& activity,
                       const AnswerRecord& record) {
  const double step_bytes = model.draft_step_bytes.value_or(0);
  const double pass_bytes = model.target_pass_bytes.value_or(0);
  DeviceWork device{.seconds = seconds_of(activity.end), .threads = model.threads};
  DeviceWork server{.seconds = device.seconds};
  switch (place) {
    case DraftPlace::kAlone:
      add_spans(activity.target, step_bytes, device);
      return summed(model, device, nullptr);
    case DraftPlace::kStrongEdge:
      add_spans(activity.draft, step_bytes, device);
      add_spans(activity.target, pass_bytes, device);
      return summed(model, device, nullptr);
    case DraftPlace::kCloud:
      add_delivery(record, device);
      server.seconds = device.seconds;
      add_spans(activity.draft, step_bytes, server);
      break;
    case DraftPlace::kEdge:
      add_spans(activity.draft, step_bytes, device);
      add_messages(activity.messages, device);
      break;
  }
  add_spans(activity.target, pass_bytes, server);
  add_spans(activity.beside, step_bytes, server);
  return summed(model, device, &server);
}

AnswerEnergy energy_from_flash(const EnergyModel& model, const Activity& activity, double passes,
                               double flash_bytes) {
  DeviceWork device{.seconds = seconds_of(activity.end), .threads = model.threads};
  add_spans(activity.draft, model.draft_step_bytes.value_or(0), device);
  add_spans(activity.target, 0, device);  // layer by layer
  device.flash_bytes = flash_bytes;
  // The flash writes there, and passes read.
  device.dram_bytes += flash_bytes + passes * model.target_pass_bytes.value_or(0);
  return summed(model, device, nullptr);
}

}  // namespace outrider
