// Keeps what answers have learnt (edge_client/speculation/pair_profile.h) between runs: one small
// file in the user's state folder, $XDG_STATE_HOME/outrider/learnt.json. It is safe to delete: the
// next answer then begins as the first one did. A file that cannot be read, or that an earlier
// version wrote, counts as none, which is logged, and is written anew. The file of a later version
// counts as none as well, and stays as it is.
//
// Two edges that end at the same time keep the file of the later one.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "common/base/status.h"
#include "edge_client/speculation/pair_profile.h"

namespace outrider {

// $XDG_STATE_HOME/outrider, or ~/.local/state/outrider; empty if neither is set.
std::string default_state_dir();

// Which draft on which device: what was learnt of another one says nothing.
struct LearningSide {
  std::string draft;   // its fingerprint
  std::string device;  // its processor, a comma, threads and emulated pace
};

// The learning that was kept for one side.
struct KeptLearning {
  PairProfiles pairs;
  std::string ignored;  // why the file, or what it has, counts as none; empty: nothing does
};

class LearntStore final {
 public:
  static constexpr std::size_t kMaxEntries = 64;  // the oldest go first

  // directory: empty for nowhere; then nothing is kept.
  explicit LearntStore(std::string directory) : directory_(std::move(directory)) {}

  KeptLearning read(const LearningSide& side) const;
  // Nothing if a later version's file is there. Errors are those of write_output().
  Status write(const LearningSide& side, const std::string& fingerprint,
               const PairProfile& learnt) const;

 private:
  std::string path() const { return directory_ + "/learnt.json"; }

  std::string directory_;
};

struct Learning {
  LearntStore store;
  LearningSide side;
};

}  // namespace outrider
