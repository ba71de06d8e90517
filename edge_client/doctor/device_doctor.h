// Finds the best drafter for a target on this device: none, a draft model, look-up, or a smaller
// level of the target itself.
//
// Each is loaded alone, so that each has the whole memory budget, and answers the same prompts. The
// first third of them chooses the best, the others judge it; who is slower there than one before it
// is asked no more.
//
// Thread rule: one thread; blocks for as long as its answers take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "edge_client/doctor/diagnosis.h"
#include "edge_client/doctor/trial_answers.h"
#include "edge_client/generation/edge_setup.h"

namespace outrider {

// How one of them did.
struct TriedDrafter {
  DraftingWay way;
  Surroundings found;                        // a step, a pass, what stood
  std::optional<double> ms_per_token;        // nothing: all answers came at once
  std::vector<TrialAnswers::Taken> answers;  // by prompt; only plain decoding and the best have all
};

// A line for each, and one for each that slows the target's passes on the cores that both share.
std::string to_text(const std::vector<TriedDrafter>& figures);
Json to_json(const TriedDrafter& figures);

class DeviceDoctor final {
 public:
  // config: has a target and no server. on_line: gets a line for each answer, and for each drafter
  // that cannot be tried.
  DeviceDoctor(GenerationConfig config, std::vector<std::string> prompts, AnswerListener& listener,
               std::function<void(const std::string&)> on_line, std::stop_token stop);

  // INVALID_ARGUMENT: too few prompts. FAILED_PRECONDITION, DATA_LOSS: as LinkDoctor. Else why
  // loading or an answer failed.
  Result<Advice> examine();
  // Plain decoding first.
  const std::vector<TriedDrafter>& figures() const { return figures_; }

 private:
  struct Drafter {
    std::string flags;
    GenerationConfig config;
  };

  std::vector<Drafter> drafters() const;
  Drafter level_drafter(const std::string& level) const;
  Status try_plain();
  Status measure(const Drafter& drafter, EdgeSetup& setup);
  bool may_be_best(const TriedDrafter& figures) const;
  // False: it cannot be loaded, which is said.
  Result<bool> try_one(const Drafter& drafter);
  Result<Advice> judge() const;

  const GenerationConfig config_;
  const std::vector<std::string> prompts_;
  AnswerListener& listener_;
  const std::function<void(const std::string&)> on_line_;
  const std::stop_token stop_;
  std::optional<TrialAnswers> trials_;  // there once the target is loaded
  std::vector<std::string> levels_;     // of a pack within a budget, the largest first
  std::vector<TriedDrafter> figures_;
};

}  // namespace outrider
