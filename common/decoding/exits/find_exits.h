// Finds a target's early exits in directories. Only here is decided which exits a verifier has, and
// why it has none.
//
// Thread rule: a free function; reads files. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/decoding/exits/adapters.h"
#include "common/decoding/exits/exit_heads.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/model.h"

namespace outrider {

struct ExitSource {
  std::string model = {};     // the target's directory or file
  std::string adapters = {};  // directory of the adapters; empty: the target's
  // "auto" (the chosen ones, if there are adapters), "none", "all", or layers "3,6,9".
  std::string exits = "auto";
  // Whether one prunes: that nearest to the middle of the model, which need not be a chosen one.
  bool prunes = false;
};

struct FoundExits {
  std::unique_ptr<ExitHeads> heads = {};  // null: none
  std::string about = {};  // one line for the log: which exits, or why there are none
};

// The adapters in a model's folder. A folder of GGUF files may hold several models: of a file whose
// folder has another model's adapters there are none.
// fingerprint: the model's. Errors: kNotFound; as load_adapters().
Result<ExitAdapters> load_adapters_beside(const std::string& model, const std::string& fingerprint);

// target: the running one. Errors: adapters that were requested and are missing, that do not fit
// the target, or that are damaged; as load_adapters(), check_target(), select_exits().
Result<FoundExits> find_exits(const ExitSource& source, const ModelInfo& target);

// All exits of a directory that `outrider-train predictor` or `exits` wrote, for pruning, which
// uses the one nearest to the middle. Errors as above.
Result<std::unique_ptr<ExitHeads>> find_predictor(const std::string& directory,
                                                  const ModelFiles& files, const ModelInfo& target);

// Like find_predictor(), of adapters that are already read. files: of the target, with its output
// matrix if an exit has none of its own.
Result<std::unique_ptr<ExitHeads>> predictor_of(ExitAdapters adapters, const ModelFiles& files,
                                                const ModelInfo& target);

// The exits of adapters that are already read, as `source` says. files: of the target, with its
// output matrix. Errors as above.
Result<FoundExits> exits_of(ExitAdapters adapters, const ExitSource& source,
                            const ModelFiles& files, const ModelInfo& target);

}  // namespace outrider
