// Asks a simulated link whether its server can be reached.
//
// Thread rule: one thread. Ownership: simulation and link outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/decoding/protocol/link_probe.h"
#include "sim/sim_link.h"
#include "sim/simulation.h"

namespace outrider {

class SimProbe final : public LinkProbe {
 public:
  SimProbe(Simulation& simulation, const SimLink& link) : simulation_(simulation), link_(link) {}

  void probe(Duration patience, Done done) override {
    const Duration took = link_.answers_at() - simulation_.now();
    const LinkProbed probed{.good = took <= patience, .took = std::min(took, patience)};
    simulation_.after(probed.took, [this, probed, number = ++number_, done = std::move(done)] {
      if (number == number_) done(probed);
    });
  }
  void stop() override { ++number_; }

 private:
  Simulation& simulation_;
  const SimLink& link_;
  std::uint64_t number_ = 0;  // of the probe that is out
};

}  // namespace outrider
