// What answers are made with and how, as plain values: a program's flags, a request over HTTP, a
// check or a test fill them.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/drafting/growth_policy.h"
#include "common/drafting/trees/make_planner.h"
#include "common/model/model_pacer.h"
#include "common/sampling/sampling.h"
#include "edge_client/failover/failover_options.h"
#include "edge_client/speculation/strategy.h"

namespace outrider {

// Of one answer.
struct AnswerConfig {
  std::optional<StrategyChoice> strategy;  // nothing: mirror if there is a draft, else ar
  std::optional<int> gamma;         // drafted tokens of a round; nothing: as the strategy does
  int branches = 1;                 // sd, fsd: chains in a round
  TreeOptions tree;                 // sd: what a round is, and whether drafting goes on while
  std::optional<bool> provisional;  // the verdict is awaited; nothing: as the tree's paper does
  // In mode auto, of what this device's own target verifies; nothing, or a strategy that somebody
  // asked for: as online.
  std::optional<TreeChoice> offline_tree;
  int fan_out = kFanOut;  // mirror: next tokens considered at each position
  QueueOrder queue = QueueOrder::kPriority;
  Optimize optimize = Optimize::kLatency;
  double uplink_budget = 0;  // bytes/s; 0: what the measured link carries

  std::int64_t max_tokens = -1;  // -1: until a stop or the end of the context
  Position context = 0;          // prompt and answer together; 0: the target's context
  SamplingParams sampling;
  std::uint64_t seed = 0;
  std::vector<std::string> stop;
  bool ignore_eos = false;  // the answer ends by its length or a stop string only
  Duration reconnect_timeout = std::chrono::seconds(30);
  bool accept_other_arithmetic = false;  // after a reconnect; then the text may differ
  bool show_provisional = false;         // the listener is told what the draft expects
};

// Between a server's target and this device's.
struct FailoverConfig {
  std::optional<Mode> mode;    // nothing: auto if both are named, else the one that is
  std::string offline_target;  // instead of GenerationConfig::target, and perhaps another model
  bool strict_target = false;  // as FailoverOptions says, and the rest too
  Position standby_lag = 0;
  Duration failover_after = std::chrono::seconds(5);
  Duration handback_after = std::chrono::seconds(2);
  double min_rate = 0;
  Duration max_round_trip{0};
  std::uint64_t metered_limit = 0;  // bytes to and from servers; 0: no limit
};

// Of a generator: what it loads, and its answers.
struct GenerationConfig {
  std::string model;      // the draft's directory; empty: no draft
  std::string tokenizer;  // a directory; empty: the model's, or else the target's
  std::string server;     // HOST:PORT; empty: kDefaultServer
  std::string tls_ca;     // as RemoteOptions says; empty: plaintext
  std::string tls_cert;
  std::string tls_key;
  bool pad_frames = false;          // as RemoteOptions says
  std::string token_file;           // the server's key for this edge; empty: none
  std::string target;               // a directory, a GGUF file or a pack; empty: the server decides
  std::uint64_t memory_budget = 0;  // bytes of everything while a pack is streamed; 0: no bound
  double prune_below = 0;           // as SchedulerOptions says, of the target on this device
  std::string predictor;            // directory of what prunes; empty: the target's exits
  double flash_bandwidth = 0;       // bytes/s of an emulated flash; 0: as fast as this device's
  std::string dtype = "auto";       // of models on this device; "auto": as stored
  std::string kv_dtype = "f32";     // of their keys and values
  std::string cache_dir = "auto";   // of converted weights: a folder, "auto", "none"
  std::string state_dir = "auto";   // of what answers teach: a folder, "auto", "none"
  std::string chat_template;        // a name, a file, "none", or empty: the target's
  std::string price_file;           // as common/prices says; empty: nothing has a price
  int threads = 0;                  // that compute; 0: one per core
  std::shared_ptr<ModelPacer> draft_pacer;  // null: as fast as it goes
  int predraft_workers = 4;                 // hypotheses that one pass of the draft serves
  FailoverConfig failover;
  AnswerConfig answer;
};

// Whether its answers are drafted.
bool wants_draft(const GenerationConfig& config);

inline constexpr char kDefaultServer[] = "127.0.0.1:8001";

// Which targets may decide.
Mode mode_of(const GenerationConfig& config);
std::string server_of(const GenerationConfig& config);
// This device's target; empty: none.
std::string local_target_of(const GenerationConfig& config);

// The strategy of such an answer: sd if it names a tree, else mirror, where it names none.
StrategyChoice strategy_of(const AnswerConfig& config);
// Drafted tokens of a round; of mirror's the most.
int draft_length_of(const AnswerConfig& config);

// Where neither --strategy nor --tree says: what a round is, ours where each pass waits for the
// flash (docs/trees.md). In mode auto that is so offline only.
struct DefaultTrees {
  TreeKind always = TreeKind::kChain;
  std::optional<TreeKind> offline = {};
};
DefaultTrees default_trees(const GenerationConfig& config);

// How the answer is speculated where this device's own target verifies, in mode auto.
AnswerConfig offline_config(const AnswerConfig& config);

// INVALID_ARGUMENT for what cannot be meant: a strategy that drafts without a draft, sampling
// parameters out of range, no address.
Status validate(const GenerationConfig& config);

// Where the tokenizer is read from; INVALID_ARGUMENT if nothing tells.
Result<std::string> tokenizer_directory(const GenerationConfig& config);

}  // namespace outrider
