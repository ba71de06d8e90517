// Corrects the confidences of a target's exits by the verdicts of the text at hand (FSD, section 6,
// leaves this to future work).
//
// A calibration (calibration.h) is fitted to held-out text. In a text of another kind the same
// confidence is right more rarely, or more often. So each exit has a logistic correction of its
// own (Platt scaling):
//
//   chance = logistic(offset + slope * log_odds(confidence))
//
// It begins at offset 0 and slope 1, i.e. with what the exit states. Every verdict shows which of
// the outcomes that exits named was right, and moves the correction by one Newton step of logistic
// regression in which older verdicts count less and less.
//
//   (hear* (on_verdict | on_pass_lost))*
//
// Both sides have one: the server orders reports by it, the edge weighs outcomes by it and keeps
// the corrections between answers. What is sent remains what the exit states, so that neither side
// corrects what the other has corrected, and older peers hear what they always did.
//
// Thread rule: a value, owned by one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/decoding/exits/online_logistic.h"

namespace outrider {

struct ExitCorrection {
  static constexpr double kMaxOffset = 8;  // either way
  static constexpr double kMaxSlope = 4;   // at least 0: what an exit is surer of stays likelier

  std::int32_t layer = 0;  // of the exit
  double offset = 0;
  double slope = 1;

  friend bool operator==(const ExitCorrection&, const ExitCorrection&) = default;

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("layer", self.layer);
    field("offset", self.offset);
    field("slope", self.slope);
  }
};

class OnlineCalibration final {
 public:
  // Exits beyond these are believed as they are.
  static constexpr std::size_t kMaxExits = 256;
  // Outcomes of a pass that are judged by its verdict; no honest verifier names more.
  static constexpr std::size_t kMaxHeard = kMaxExits;

  // In the pass that runs, the exit after this layer states with this confidence, 0..1, that the
  // verdict will have these tokens. Returns the chance that it is right.
  double hear(std::int32_t layer, double confidence, std::vector<TokenId> outcome);
  // The verdict of that pass: learns from what was heard.
  void on_verdict(std::span<const TokenId> tokens);
  // That pass has no verdict: its stream was lost, or it failed.
  void on_pass_lost() { heard_.clear(); }

  // The corrections of the exits heard so far, by layer.
  std::vector<ExitCorrection> corrections() const;
  // Begins with corrections that an earlier text left; they count as a few verdicts.
  void restore(std::span<const ExitCorrection> corrections);

 private:
  struct Heard {
    std::int32_t layer;
    double odds;
    std::vector<TokenId> outcome;
  };

  std::map<std::int32_t, OnlineLogistic<2>> exits_;  // by layer; of offset and slope
  std::vector<Heard> heard_;                         // in the pass that runs
};

}  // namespace outrider
