// The flags of programs that record answers. Thread rule: main thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "common/serving/cli/program.h"
#include "common/serving/record/recorder.h"

namespace outrider {

// They stand among what is rarely needed of the group. of: whose records, as "Of each answer".
inline void add_record_flags(CLI::App& command, RecordOptions& options, const std::string& of,
                             const std::string& group) {
  command
      .add_option("--record", options.file,
                  of + ", add a record to this file, which outrider-edge audit reads: prompt, "
                       "settings, tokens, and digests of the rows that they were chosen from")
      ->group(group + kRarelyNeeded);
  command
      .add_option("--record-key", options.key,
                  "Sign records with the private key in this file (see: outrider-server record-key "
                  "new FILE)")
      ->group(group + kRarelyNeeded);
  command
      .add_flag("--record-hashes-only", options.hashes_only,
                "Salted hashes in place of prompt and answer, which go with the salt to "
                "FILE.texts, for the auditor alone")
      ->group(group + kRarelyNeeded);
}

}  // namespace outrider
