// Faults of servers and links at random times of a simulation, and counts of those that met
// somebody: a test that injects faults shows with them that its runs were harsh.
//
// Thread rule: one thread. Ownership: simulation, server and links outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/sim_link.h"
#include "sim/sim_server.h"
#include "sim/simulation.h"

namespace outrider {

struct InjectedFaults {
  std::uint64_t failed_passes = 0;
  std::uint64_t drains = 0;            // while a session was open
  std::uint64_t restarts = 0;          // that broke a session
  std::uint64_t crashes = 0;           // that broke a session, and nobody was told
  std::uint64_t stalls = 0;            // of a reader for whom something waited then
  std::uint64_t overflows = 0;         // streams lost because a reader stalled
  std::uint64_t partitions = 0;        // that held a message
  std::uint64_t limited_messages = 0;  // held by a limit of bandwidth
  std::uint64_t cuts = 0;              // of links

  InjectedFaults& operator+=(const InjectedFaults& other);
};

// Fails the test unless in so many runs each kind of fault met somebody often enough.
void expect_harsh(const InjectedFaults& counts, std::uint64_t runs);

class FaultInjector final {
 public:
  using Links = std::vector<std::unique_ptr<SimLink>>;

  // Most runs have few kinds of faults or none, so that each meets sound surroundings too.
  FaultInjector(Simulation& simulation, SimServer& server, const Links& links);

  void begin();
  InjectedFaults counts() const;
  // A pass may have failed with RESOURCE_EXHAUSTED, which edges take as final.
  bool fatal_passes() const { return fatal_passes_; }

 private:
  enum class Fault : std::uint8_t {
    kFailingPass,
    kFatalPass,
    kDrain,
    kRestart,
    kCrash,
    kStalledReader,
    kPartition,
  };

  void inject_later();
  void inject(Fault fault);
  void drain();
  void restart();
  void crash();
  void stall(SimLink& link);
  void partition(SimLink& link);

  Simulation& simulation_;
  SeededRandom& random_;
  SimServer& server_;
  const Links& links_;
  std::vector<Fault> kinds_;
  int left_ = 0;
  bool fatal_passes_ = false;
  InjectedFaults counts_;
};

}  // namespace outrider
