// The target of a server: a model and the hash of its tokenizer, found by --model.
//
//   DIR             a Hugging Face directory
//   null:[VOCAB]    no work and no weights, for measuring the overhead of everything else
//
// Thread rule: load_target() blocks; the rest is data. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/exits/exit_heads.h"
#include "common/decoding/exits/find_exits.h"
#include "common/decoding/levels/level_book.h"
#include "common/decoding/request/sampling_defaults.h"
#include "common/engine/model/loader/loader.h"
#include "common/engine/model/model.h"
#include "common/engine/model/model_pacer.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/conversation/chat_template.h"

namespace outrider {

struct TargetOptions {
  LoadOptions loading = {.cache_dir = "auto"};  // directory: as above
  std::shared_ptr<ModelPacer> pacer = {};       // null: as fast as it goes
  ExitSource exits = {};                        // its model is that of loading
  std::string predictor;                        // directory of what prunes; empty: the exits
  std::string draft_model;                      // of the same tokenizer; empty: none
  int draft_threads = 0;                        // its own ones; 0: it is where the target is
  std::string chat_template;                    // a name or a file; empty: the model's
  GenerationConfigUse generation_config = GenerationConfigUse::kNone;
  std::string level;  // of loading.elastic, that answers all; empty: sessions choose
};

struct LoadedTarget {
  std::unique_ptr<Model> whole = {};  // outlives `model`, which has its levels; null: it has none
  std::unique_ptr<Model> model;
  std::string tokenizer_hash;
  std::optional<Tokenizer> tokenizer = {};  // nothing: for the null model
  ChatSource chat = {};                     // the template for conversations
  std::string about_template = {};          // one line: the template's name, or why there is none
  GenerationDefaults generation = {};       // how it samples where requests are silent
  std::unique_ptr<ExitHeads> exits = {};    // null: none
  std::string about_exits = {};             // one line: which exits, or why there are none
  std::unique_ptr<ExitHeads> predictor = {};
  std::string no_predictor = {};             // why the requested predictor is missing
  std::unique_ptr<Model> draft = {};         // null: none
  std::unique_ptr<LevelBook> levels = {};    // that requests may choose; null: they choose none
  std::vector<ModelInfo> level_models = {};  // the same levels; none: as above
};

// The target's, with the weights, keys and values of its draft: what memory has to hold.
ModelInfo with_draft(const LoadedTarget& target);

// clock: outlives the model.
Result<LoadedTarget> load_target(const TargetOptions& options, Clock& clock);

}  // namespace outrider
