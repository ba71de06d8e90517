// The shipped scheduler as a server of light clients: real streams, messages and trees over a
// target without weights, whose passes take what a device's curve says. No logits are computed: the
// target writes one token for ever, a right draft has it and a wrong one another. A draft model
// beside the target is right at the same positions as the clients' own.
//
// Thread rule: one thread. Ownership: simulation, load and curve outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "bench/capacity/crowd.h"
#include "common/engine/model/emulated/pace.h"
#include "common/engine/model/model.h"
#include "common/engine/sampling/guess.h"
#include "sim/sim_server.h"

namespace outrider {

class VerifierServer final : public CrowdServer {
 public:
  struct Limits {
    int gamma = 0;              // nodes of a session in a pass
    std::int64_t max_rows = 0;  // of a pass, at most the curve's last
    bool price_rows = true;     // as SchedulerOptions says
    bool waits = false;         // a session waits for its nodes; else its policy is eager, without
                                // patience, and it goes on without
    // A draft model beside the target: its step over a target's pass of as many rows. 0: none
    double draft_share = 0;
  };
  VerifierServer(Simulation& simulation, const ClientLoad& load, const PaceCurve& pass,
                 const Limits& limits);

  void open(const RequestId& request) override;
  void take(const CrowdRound& round) override;
  CrowdServerCounts counts() const override;
  Status status() const override { return status_; }

 private:
  struct Session {
    RequestId request;
    StreamId stream = 0;
    NodeId next_id = 1;
    Position prompt = 0;
  };

  SchedulerOptions options(const Limits& limits) const;
  Guess drafted(const Row& row);
  Duration pass_takes(const PassRowCounts& rows);
  void hear(std::size_t client, const VerifierEvent& event);

  const ClientLoad& load_;
  const PaceCurve& pass_;
  const int gamma_;
  const bool waits_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Model> draft_;  // null: none
  SimServer server_;
  std::vector<Session> sessions_;                        // by client
  std::map<const KvCache*, std::size_t> read_by_draft_;  // the client whose text is there
  Status status_;
  std::uint64_t from_clients_ = 0, from_server_ = 0;
};

}  // namespace outrider
