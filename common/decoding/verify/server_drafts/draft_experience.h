// The experience with a draft model beside the target (model_draft.h): the worth of its guesses,
// and the gain and the time of its steps. A server keeps it from session to session.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "common/decoding/costs/pass_costs.h"
#include "common/engine/sampling/guess.h"

namespace outrider {

// A step of the draft: one guess more at the end of a chain.
struct ChainStep {
  float covered = 0;     // by what was there before, the edge's or look-up's: the chance of it
  bool brought = false;  // the guess became text, and had not been drafted there before
};

// How often a step brings a token, if the chain before it stands: by its depth in the chain, and by
// what the edge or look-up had guessed in its place. A session goes by its own steps, and where
// they are too few by those of all sessions; what nobody knows of a depth is taken to be as it is
// one step before.
//
//   of all(d)        =  (brought + 4 * of all(d - 1)) / (steps + 4)
//   of a session(d)  =  (brought + 8 * of all(d)    ) / (steps + 8)
//
// Older outcomes count less with every chain, also at depths that are not tried any more.
class DraftGains final {
 public:
  // chains: about so many count, the last ones.
  explicit DraftGains(double chains) : keep_(1 - 1 / chains) {}

  // depth: 0 for the first step of a chain.
  double chance(std::size_t depth, float covered) const;
  // The chance for one session, given those of all.
  double chance(std::size_t depth, float covered, const DraftGains& of_all) const;
  // Learns a chain whose continuation became known: its steps, in order, up to the first wrong one.
  void add(std::span<const ChainStep> chain);

 private:
  static constexpr std::size_t kDepths = 8;  // the last is of all that are deeper
  static constexpr std::size_t kCovers = 3;  // hardly, perhaps, likely

  struct Seen {
    double steps = 0;
    double brought = 0;
  };
  static std::size_t cover_of(float covered);

  double keep_;
  std::array<std::array<Seen, kCovers>, kDepths> seen_{};
};

struct DraftExperience {
  GuessCalibration calibration = {};  // of what it states of its guesses
  DraftGains gains{200};              // of all sessions
  PassCostBook step_costs = {};       // by rows
  double read_row_seconds = 0;        // of a token of a text that is read, lately; 0: none was
};

}  // namespace outrider
