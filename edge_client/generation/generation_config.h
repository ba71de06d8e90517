// The models and options of answers, as plain values: a program's flags, a request over HTTP, a
// check or a test fill them.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/enum_names.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/decoding/drafting/drafter.h"
#include "common/decoding/drafting/lookup/draft_source.h"
#include "common/decoding/request/sampling_defaults.h"
#include "common/decoding/request/slo.h"
#include "common/decoding/request/text_options.h"
#include "common/engine/model/loader/loader.h"
#include "common/engine/model/model_pacer.h"
#include "common/serving/record/recorder.h"
#include "edge_client/failover/failover_options.h"
#include "edge_client/flash/flash_model.h"
#include "edge_client/session/stream_link.h"
#include "edge_client/speculation/speculation_options.h"
#include "edge_client/verifiers/remote.h"
#include "edge_client/verifiers/stock/stock_server.h"

namespace outrider {

// The options of one answer.
struct AnswerConfig {
  SpeculationOptions speculation;  // without a strategy, an answer without a draft is plain
  // In mode auto, of what this device's own target verifies; nothing, or a strategy that somebody
  // asked for: as online.
  std::optional<TreeChoice> offline_tree;
  TextOptions text;
  LevelWish wish;        // of an elastic target
  Position context = 0;  // prompt and answer together; 0: the target's context
  ReconnectOptions reconnect;
  bool accepts_server_nodes = true;  // if servers may draft at all
  bool show_provisional = false;     // the listener gets the draft's guesses, too
};

// Which side drafts.
enum class DraftSide : std::uint8_t {
  kAuto,  // both, each as far as it pays
  kEdge,
  kServer,
};

template <>
inline constexpr auto enum_names<DraftSide> = std::to_array<EnumName<DraftSide>>(
    {{DraftSide::kAuto, "auto"}, {DraftSide::kEdge, "edge"}, {DraftSide::kServer, "server"}});

// The options of a generator: the files that it loads, and its answers.
struct GenerationConfig {
  std::string model;                        // the draft model's directory; empty: none
  std::optional<DraftSource> draft_source;  // nothing: the model, or look-up if there is none
  DraftSide draft_at = DraftSide::kAuto;    // where a server decides
  std::string lookup_corpus;                // texts to look up in, a file or a folder; empty: none
  std::string tokenizer;   // a directory; empty: that of a target here, or else the draft's
  std::string server;      // HOST:PORT; empty: kDefaultServer
  RemoteOptions remote;    // how it is reached; address and key are those of server and token_file
  std::string token_file;  // the server's key for this edge; empty: none
  ServerApi server_api = ServerApi::kOutrider;
  std::string server_model;  // its name on a server that is not Outrider's; empty: its first
  std::string target;        // a directory, a GGUF file or a pack; empty: the server decides
  LoadOptions loading = {.cache_dir = "auto"};  // of models on this device, except for directories
  std::string draft_device;                     // where the draft computes; empty: as loading says
  FlashOptions flash;              // of a pack; kv_dtype and threads are those of loading
  double prune_below = 0;          // as SchedulerOptions says, of the target on this device
  std::string predictor;           // directory of what prunes; empty: the target's exits
  std::string state_dir = "auto";  // of what answers have learnt: a folder, "auto", "none"
  std::string chat_template;       // a name, a file, "none", or empty: the target's
  // Whether the target's generation_config.json counts, and what flags say in its place.
  GenerationConfigUse generation_config = GenerationConfigUse::kNone;
  SamplingDefaults sampling = {};
  RecordOptions record;    // of answers
  std::string price_file;   // as common/serving/prices says; empty: nothing has a price
  std::string device_file;  // this device's power, as device_power.h there says; empty: not known
  std::shared_ptr<ModelPacer> draft_pacer;              // null: as fast as it goes
  DrafterOptions drafter = {.workers = kDraftWorkers};  // its bounds are the draft's
  std::optional<Mode> mode;    // nothing: auto if both targets are named, else the one that is
  std::string elastic;         // level table of `target`; empty: it has no levels
  std::string draft_level;     // of `target`, instead of `model`: drafts for the larger ones
  std::string offline_target;  // instead of `target`, and perhaps another model than the server's
  FailoverOptions failover;
  std::uint64_t metered_limit = 0;  // bytes to and from servers; 0: no limit
  AnswerConfig answer;
};

// Whether its answers are drafted, and by what.
bool wants_draft(const GenerationConfig& config);
DraftSource draft_source_of(const GenerationConfig& config);
bool drafts_by_model(const GenerationConfig& config);  // or by a level of the target
bool drafts_by_lookup(const GenerationConfig& config);

inline constexpr char kDefaultServer[] = "127.0.0.1:8001";

// Which targets may decide.
Mode mode_of(const GenerationConfig& config);
std::string server_of(const GenerationConfig& config);
// This device's target; empty: none.
std::string local_target_of(const GenerationConfig& config);

// Where neither --strategy nor --tree says: what a round is, ours where each pass waits for the
// flash (docs/trees.md). In mode auto that is so offline only.
struct DefaultTrees {
  TreeKind always = TreeKind::kChain;
  std::optional<TreeKind> offline = {};
};
DefaultTrees default_trees(const GenerationConfig& config);

// How the answer is speculated where this device's own target verifies, in mode auto.
SpeculationOptions offline_speculation(const AnswerConfig& config);

// INVALID_ARGUMENT for what cannot be meant: a strategy that drafts without a draft, sampling
// parameters out of range, no address.
Status validate(const GenerationConfig& config);

// The same of a pack that is open: whether it has the levels that are asked for.
Status check_pack_levels(const GenerationConfig& config, const ModelPack& pack);

// Where the tokenizer is read from; INVALID_ARGUMENT if nothing names one.
Result<std::string> tokenizer_directory(const GenerationConfig& config);

}  // namespace outrider
