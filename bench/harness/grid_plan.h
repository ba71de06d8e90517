// The plan of an experiment (grid.h): settings, variants and prompts.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/cost/energy.h"
#include "bench/lab/outside_strategy.h"
#include "common/base/enum_names.h"
#include "common/decoding/drafting/growth_policy.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/engine/model/emulated/pace.h"
#include "common/engine/sampling/sampling.h"
#include "edge_client/speculation/strategy.h"
#include "emulation/link/link.h"
#include "emulation/path/link_profile.h"
#include "emulation/path/stream_path.h"

namespace outrider {

// `exits` of a plan: synthetic early exits after each layer of the paper's target, in virtual time.
inline constexpr const char* kSyntheticExits = "synthetic";

// A pair without models with the acceptance of a data set (sim/synthetic_pair.h).
struct SyntheticAcceptance {
  std::string name;
  double tau = 1;  // tokens per round
  int gamma = 4;   // with which tau was measured
  // The share of rounds that no exit names, and the mean layer of the exits that name the others.
  // Without it, the plan's exits are used.
  std::optional<double> miss_rate = {};
  double mean_exit = 0;

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("name", self.name);
    field("tau", self.tau);
    field("gamma", self.gamma);
    field("miss_rate", self.miss_rate);
    field("mean_exit", self.mean_exit);
  }
};

// Devices, a link between them, and how tokens are chosen.
struct GridSetting {
  std::string name;
  std::string pace = {};      // its name
  std::string network = {};   // as given by the user; empty: the pace's own delay
  PaceCurve pass = {};        // of the target; empty: unpaced
  double exit_cost = 1;       // how many times as long a pass with exits takes
  PaceCurve step = {};        // of the draft; empty: unpaced
  PaceCurve cloud_step = {};  // of a draft beside the target
  LinkProfile link = {};
  LinkKind link_kind = LinkKind::kModelled;
  SamplingParams sampling = {};
  int target_layers = 32;                             // of the paper's target, for synthetic exits
  std::optional<SyntheticAcceptance> synthetic = {};  // instead of the models

  int connect_trips() const {
    return link_kind == LinkKind::kModelled ? kConnectTripsBehindProxy : kConnectTrips;
  }
};

// Where the draft runs: on the edge, beside the target, on the edge without any target, or beside
// the target on an edge that is strong enough for both.
enum class DraftPlace : std::uint8_t { kEdge, kCloud, kAlone, kStrongEdge };

template <>
inline constexpr auto enum_names<DraftPlace> =
    std::to_array<EnumName<DraftPlace>>({{DraftPlace::kEdge, "edge"},
                                         {DraftPlace::kCloud, "cloud"},
                                         {DraftPlace::kAlone, "alone"},
                                         {DraftPlace::kStrongEdge, "strong-edge"}});

struct GridVariant {
  std::string name;
  StrategyChoice strategy = Strategy::kAr;
  int gamma = 0;               // draft length; 0: the plan's
  bool uses_exits = false;     // if its edge asks for them
  bool without_exits = false;  // its server has no exits
  DraftPlace place = DraftPlace::kEdge;
  std::shared_ptr<OutsideProgram> outside = {};  // decides, where strategy is its guest
  bool drafts_blocks = false;  // one step of the draft guesses a whole round; virtual clock only
  // The source by which its server drafts, with the same draft model; virtual clock only.
  DraftSource server_drafts = DraftSource::kNone;
  bool server_draft_alone = false;  // the server's draft model has a device of its own
  std::string best_of = {};         // the contender of which this is one variant; the best counts
  std::optional<int> fan_out = {};  // mirror
  // fsd, mirror: if not set, the edge's and the server's own defaults.
  std::optional<int> workers = {};  // hypotheses per draft pass
  std::optional<QueueOrder> client_queue = {};
  std::optional<ReportQueue> server_queue = {};  // on a server of its own
  std::vector<std::string> edge_flags;           // after the strategy's own; real programs only
  std::vector<std::string> server_flags;         // variants with the same ones share a server
};

// A strategy's variant in comparisons: "fsd" is the paper's, with a server of its own whose exits
// are not calibrated.
GridVariant variant_of(const StrategyChoice& strategy);

// Its edge drafts, and so can say before the target what an answer will be (slo.unverified).
inline bool drafts_on_edge(const GridVariant& variant) {
  return variant.place == DraftPlace::kEdge && variant.strategy != Strategy::kAr;
}

// Its text is not the target's, and is not compared with it.
inline bool has_own_text(const GridVariant& variant) {
  return variant.place == DraftPlace::kAlone;
}

struct GridPlan {
  std::string target = {};  // directories
  std::string draft = {};
  std::string dtype = "auto";
  std::string exits = "auto";             // of the target, for outrider-server; or kSyntheticExits
  std::string device = "cpu";             // of outrider-server
  std::optional<double> exit_scale = {};  // of synthetic exits; nothing: as fitted
  std::vector<std::string> prompts = {};
  int max_tokens = 200;
  int gamma = 4;
  std::uint64_t seed = 0;
  int repetitions = 1;
  std::string server = {};  // HOST:PORT of a running server; empty: servers of our own
  int threads = 1;          // of each program of ours
  // A folder in which the edges of each setting and variant keep what they learn; empty: each
  // answer is a first one.
  std::string state_dir = {};
  bool traces = false;  // of the answers that is_traced() names
  // Edges that draft give by then what they expect of an answer (slo.unverified). Nothing: none.
  std::optional<double> unverified_by_ms = {};
  std::string grammar = {};  // each answer's form, in GBNF; empty: any
  // Each edge is connected before its answer begins, as one of `serve` that has answered before.
  // Virtual clock only.
  bool connected = false;
  std::optional<EnergyModel> energy = {};  // of the answers' devices. Virtual clock only
  // The flags that every edge has, plain decoding's too: "--json-schema={}". By real programs only.
  std::vector<std::string> edge_flags = {};
  std::vector<GridSetting> settings = {};
  std::vector<GridVariant> variants = {};
};

// One answer of the grid, as indices into the plan.
struct AnswerJob {
  std::size_t setting = 0;
  std::size_t variant = 0;
  std::size_t prompt = 0;
  std::size_t repetition = 0;

  friend bool operator==(const AnswerJob&, const AnswerJob&) = default;
  friend auto operator<=>(const AnswerJob&, const AnswerJob&) = default;
};

// The profile's time at which an answer's link starts. All variants of a prompt get the same part
// of a trace and the same black-outs.
Duration link_offset(const GridPlan& plan, const AnswerJob& job);
// Seed of its jitter and losses; also the same for all variants.
std::uint64_t link_seed(const GridPlan& plan, const AnswerJob& job);

// Whether the time line of both sides is recorded for this answer: for the first prompt, at the
// setting with the median round trip.
bool is_traced(const GridPlan& plan, const AnswerJob& job);

// All answers in the order in which they run. Prompts inside: settings, repetitions, prompts,
// variants; prompts outside: prompts, repetitions, settings, variants. Each prompt starts with
// another variant, so slow changes (heat, other work on the machine) affect all alike.
enum class PromptOrder : std::uint8_t { kInside, kOutside };
std::vector<AnswerJob> jobs_of(const GridPlan& plan, PromptOrder order);

}  // namespace outrider
