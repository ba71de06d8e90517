// The energy of an answer, modelled: what a device's parts take (a device file) times how long each
// worked, and how many bytes it moved. All figures are modelled, none is measured.
//
//   idle     the whole device, from the request to the last token
//   compute  its GPU or its cores above idle, while a model computes
//   dram     bytes of weights that steps and passes read, and what flash wrote there
//   flash    bytes that were read
//   radio    bytes that were sent and received
//   tail     the radio above idle, for a while after each message: also after the last token
//
// Draft and target on one device share what computes: while both work, it works once.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "common/serving/prices/device_power.h"

namespace outrider {

// Seconds since the request.
struct WorkSpan {
  double from = 0;
  double to = 0;
};

// The work of a device for one answer.
struct DeviceWork {
  double seconds = 0;  // of the answer
  int threads = 1;     // that compute, where models compute on cores
  std::vector<WorkSpan> computing = {};
  std::vector<double> messages_at = {};  // seconds
  double dram_bytes = 0;
  double flash_bytes = 0;
  double up_bytes = 0;
  double down_bytes = 0;
};

// Joules.
struct EnergyParts {
  double idle = 0;
  double compute = 0;
  double dram = 0;
  double flash = 0;
  double radio = 0;
  double tail = 0;

  double sum() const { return idle + compute + dram + flash + radio + tail; }
  EnergyParts& operator+=(const EnergyParts& other);
  EnergyParts operator*(double factor) const;

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("idle", self.idle);
    field("compute", self.compute);
    field("dram", self.dram);
    field("flash", self.flash);
    field("radio", self.radio);
    field("tail", self.tail);
  }
};

// Part by part.
EnergyParts energy_parts(const DevicePower& device, const DeviceWork& work);

// The whole by another way: the device's power at each moment, over time, and its bytes.
double energy_over_time(const DevicePower& device, const DeviceWork& work);

// An answer's joules: of the device in the user's hands, and of the server's share if it is known.
struct AnswerEnergy {
  EnergyParts device = {};
  std::optional<EnergyParts> server = {};
  double joules = 0;  // both, over time

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("device", self.device);
    field("server", self.server);
    field("joules", self.joules);
  }
};

// The devices of a run whose answers have a modelled energy.
struct EnergyModel {
  DevicePower device;
  std::optional<DevicePower> server = {};
  int threads = 1;  // of the device that compute, where it computes on cores
  // Weights that a draft step and a target pass read. Nothing: those of the models that run.
  std::optional<double> draft_step_bytes = {};
  std::optional<double> target_pass_bytes = {};
};

}  // namespace outrider
