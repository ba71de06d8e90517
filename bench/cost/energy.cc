// SPDX-License-Identifier: Apache-2.0
#include "bench/cost/energy.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// Seconds in which at least one of the spans runs. By their beginnings.
double covered(std::vector<WorkSpan> spans) {
  std::ranges::sort(spans, {}, &WorkSpan::from);
  double sum = 0, until = 0;
  for (const WorkSpan& span : spans) {
    sum += std::max(0.0, span.to - std::max(span.from, until));
    until = std::max(until, span.to);
  }
  return sum;
}

std::vector<WorkSpan> tails(const DevicePower& device, const DeviceWork& work) {
  std::vector<WorkSpan> spans;
  for (const double at : work.messages_at) spans.push_back({at, at + device.tail_s});
  return spans;
}

// A moment at which the device's power changes.
struct Change {
  double at = 0;
  int computing = 0;  // spans that begin, less those that end
  int tails = 0;
  int awake = 0;
};

}  // namespace

EnergyParts& EnergyParts::operator+=(const EnergyParts& other) {
  idle += other.idle;
  compute += other.compute;
  dram += other.dram;
  flash += other.flash;
  radio += other.radio;
  tail += other.tail;
  return *this;
}

EnergyParts EnergyParts::operator*(double factor) const {
  return {idle * factor,  compute * factor, dram * factor,
          flash * factor, radio * factor,   tail * factor};
}

EnergyParts energy_parts(const DevicePower& device, const DeviceWork& work) {
  return {.idle = device.idle_w * work.seconds,
          .compute = device.computing_w(work.threads) * covered(work.computing),
          .dram = device.dram_j_per_byte * work.dram_bytes,
          .flash = device.flash_j_per_byte * work.flash_bytes,
          .radio = device.up_j_per_byte * work.up_bytes + device.down_j_per_byte * work.down_bytes,
          .tail = device.tail_w * covered(tails(device, work))};
}

double energy_over_time(const DevicePower& device, const DeviceWork& work) {
  std::vector<Change> changes = {{.at = 0, .awake = 1}, {.at = work.seconds, .awake = -1}};
  for (const WorkSpan& span : work.computing) {
    changes.push_back({.at = span.from, .computing = 1});
    changes.push_back({.at = span.to, .computing = -1});
  }
  for (const WorkSpan& span : tails(device, work)) {
    changes.push_back({.at = span.from, .tails = 1});
    changes.push_back({.at = span.to, .tails = -1});
  }
  std::ranges::sort(changes, {}, &Change::at);
  double joules = device.dram_j_per_byte * work.dram_bytes +
                  device.flash_j_per_byte * work.flash_bytes +
                  device.up_j_per_byte * work.up_bytes + device.down_j_per_byte * work.down_bytes;
  Change now;
  for (const Change& change : changes) {
    double watts = now.awake > 0 ? device.idle_w : 0;
    if (now.computing > 0) watts += device.computing_w(work.threads);
    if (now.tails > 0) watts += device.tail_w;
    joules += watts * (change.at - now.at);
    now = {change.at, now.computing + change.computing, now.tails + change.tails,
           now.awake + change.awake};
  }
  return joules;
}

}  // namespace outrider
