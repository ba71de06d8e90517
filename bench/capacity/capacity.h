// How many sessions one server carries until an SLO breaks: the contenders, each at its best draft
// length and row limit, and what the capacity law says beside them.
//
// The law ("Speculation at a Distance", arXiv 2606.25091): a draft beside the target takes gamma
// t_d of the device in each round, and a draft on the edge none of it. So drafting on the edge
// carries 1 + gamma t_d / t_v times as many sessions, where the device is all that bounds them.
//
// Thread rule: one thread. Units: ms. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/capacity/crowd.h"
#include "bench/capacity/load.h"
#include "bench/stats/statistics.h"
#include "common/base/enum_names.h"
#include "common/base/json.h"
#include "common/base/status.h"

namespace outrider {

enum class CapacityContender : std::uint8_t {
  kPlain,           // no draft: a row a session, by the shipped scheduler
  kColocatedSteps,  // batch_server.h has these
  kColocatedBlock,
  kSpecEdgeStatic,
  kSpecEdgeDynamic,
  kDipSd,
  kOursDrafting,    // drafts on the edge, sent ahead and not waited for; the shipped scheduler
  kOurs,            // the same, or plain where drafting does not pay, which an edge finds out
  kServerDrafting,  // the server drafts by a model of its own, beside the target
  kBothDrafting,    // clients send ahead as well
};

template <>
inline constexpr auto enum_names<CapacityContender> = std::to_array<EnumName<CapacityContender>>(
    {{CapacityContender::kPlain, "plain"},
     {CapacityContender::kColocatedSteps, "colocated-steps"},
     {CapacityContender::kColocatedBlock, "colocated-block"},
     {CapacityContender::kSpecEdgeStatic, "specedge-static"},
     {CapacityContender::kSpecEdgeDynamic, "specedge-dynamic"},
     {CapacityContender::kDipSd, "dip-sd"},
     {CapacityContender::kOursDrafting, "ours-drafting"},
     {CapacityContender::kOurs, "ours"},
     {CapacityContender::kServerDrafting, "server-drafting"},
     {CapacityContender::kBothDrafting, "both-drafting"}});

inline bool drafts_beside(CapacityContender contender) {
  return contender == CapacityContender::kServerDrafting ||
         contender == CapacityContender::kBothDrafting;
}
inline bool is_ours(CapacityContender contender) {
  return contender == CapacityContender::kOurs || contender == CapacityContender::kOursDrafting ||
         drafts_beside(contender);
}

// The bounds of a session: 95 % of the answers keep both.
struct CapacitySlo {
  double tpot_ms = 100;
  double ttft_ms = 5000;

  // Nothing complete is a miss.
  bool is_met(const CrowdFigures& figures) const;
};

// How a contender is run.
struct CapacityTuning {
  int gamma = 0;
  std::int64_t max_rows = 1;
};

struct CapacityRun {
  CrowdFigures clients;
  CrowdServerCounts server;
  double tokens_per_s = 0;  // delivered within the measured time
};

struct CapacityQuestion {
  CapacityPace pace;
  CapacityPair pair;
  ClientLoad load;  // all but clients and seed
  CapacitySlo slo;
  double draft_share = 0;  // a pass of the draft beside the target over a target's of as many rows
  int seeds = 3;
  std::size_t max_clients = 10000;
};

// INTERNAL if the run is worth nothing (CrowdServer::status()).
Result<CapacityRun> run_capacity(const CapacityQuestion& question, CapacityContender contender,
                                 const CapacityTuning& tuning, std::size_t clients,
                                 std::uint64_t seed);

// The most sessions, up to `limit`, for which `holds`, which must not hold again above the first
// number for which it does not: within 1 %, exactly below 200. guess: where to begin. 0: not even
// one.
std::size_t max_sessions(const std::function<bool(std::size_t)>& holds, std::size_t guess,
                         std::size_t limit);

// The figures of a contender at its best tuning, one of each per seed, in their order.
struct CapacityFigures {
  CapacityContender contender = CapacityContender::kPlain;
  CapacityTuning best = {};
  std::vector<double> sessions = {};
  std::vector<double> tokens_per_s = {};  // with so many sessions
  double rounds_per_pass = 0;             // the mean over seeds
  double rows_per_pass = 0;
};
Result<CapacityFigures> find_capacity(const CapacityQuestion& question,
                                      CapacityContender contender);

// One way to draft at one load. One of each per seed, in their order.
struct DrafterFigures {
  std::vector<double> tokens_per_s = {};
  std::vector<double> tpot_p95_ms = {};
  std::uint64_t from_clients = 0, from_server = 0;  // drafted tokens that stood

  double server_share() const;
};

// The contender that should draft for this number of sessions.
struct DraftersAtLoad {
  std::size_t clients = 0;
  DrafterFigures by_clients = {};
  DrafterFigures by_server = {};
  DrafterFigures both = {};

  std::array<const DrafterFigures*, 3> all() const { return {&by_clients, &by_server, &both}; }
  Estimate both_over_better() const;  // tokens a second
};
Result<DraftersAtLoad> compare_drafters(const CapacityQuestion& question,
                                        const CapacityTuning& tuning, std::size_t clients);

// 1 + gamma t_d / t_v at what a co-located contender reached; 1 without a session.
double law_factor(const CapacityQuestion& question, const CapacityFigures& colocated);

// The mean over seeds.
Estimate mean_of(const std::vector<double>& by_seed);
// The ratio of the means, with seeds drawn together. Both have one value per seed; 0 if nothing is
// below.
Estimate ratio_of_means(const std::vector<double>& above, const std::vector<double>& below);

}  // namespace outrider
