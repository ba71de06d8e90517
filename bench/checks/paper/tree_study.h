// Runs of rivals from an emulated flash, for `outrider-bench reproduce`, and the claims that come
// of them.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/checks/paper/reproduce_runs.h"
#include "bench/paper/flash_tables.h"
#include "bench/trees/tree_run.h"

namespace outrider {

class TreeStudy final {
 public:
  explicit TreeStudy(const ReproduceOptions& options);

  // The options of the runs that follow.
  TreeRunOptions& options() { return options_; }
  void blur_draft(double deviation);
  // A synthetic pair that is right as often as this one in print, on its device.
  void use_pair(const EdgellmCorrect& printed);
  // The demo pair on this device.
  void use_demo_pair(const std::string& pace);

  // Takes at most so many of each run's prompts.
  void at_most(std::size_t prompts);

  // Each run starts without learnt times, because it is on another device. DATA_LOSS if a lossless
  // rival's answer is another than the first one's. prompts: a file; empty: those that the user
  // named, or GSM8K's, which ship.
  using Names = std::vector<std::string>;
  Result<TreeResults> run(const Names& policies, const std::string& prompts = "");
  Result<TreeResults> run(const std::vector<TreeRival>& rivals, const std::string& prompts = "");

 private:
  void use(FlashModels models);

  // The yield of trees depends on real text, so there is no run without prompts.
  const std::string prompts_;
  TreeRunOptions options_;
  std::unique_ptr<FlashAnswers> flash_;  // null: not loaded yet
};

// A table or figure of LEVER, EdgeLLM or LLMCad.
struct TreeReproduction {
  std::string name;
  std::function<Status(TreeStudy&, Findings&)> run;
};
std::vector<TreeReproduction> delay_reproductions();    // reproduce_delays.cc
std::vector<TreeReproduction> edgellm_reproductions();  // reproduce_edgellm.cc
std::vector<TreeReproduction> parts_reproductions();    // reproduce_parts.cc
std::vector<TreeReproduction> lever_reproductions();    // reproduce_lever.cc

// The paper that a command is of, where EdgeLLM and LLMCad, its earlier form, have the same
// experiment: its name, which is its policy's, and whether it is EdgeLLM.
struct Twin {
  std::string name;
  bool is_edgellm = true;

  std::string policy(const std::string& part = "") const {
    return part.empty() ? name : name + "-" + part;
  }
};
inline const Twin kEdgellm{"edgellm", true}, kLlmcad{"llmcad", false};

// "edgellm-fig13".
TreeReproduction reproduction_of(const Twin& twin, const std::string& figure,
                                 Status (*run)(TreeStudy&, const Twin&, Findings&));

// All of them: reproduce_delays.cc, reproduce_edgellm.cc, reproduce_parts.cc, reproduce_lever.cc.
std::vector<TreeReproduction> tree_reproductions();

double tokens_per_s(const TreeResults& results, const std::string& policy);
double speed_over(const TreeResults& results, const std::string& one, const std::string& other);
double tau(const TreeResults& results, const std::string& policy);

// Why speeds and yields of the demo pair may be others than those of the papers' pairs.
inline constexpr const char* kOtherPair =
    "the demo pair stands for the papers' pairs: its draft knows other texts, and guesses so well "
    "that short trees and chains are worth more";
// And those of a synthetic one.
inline constexpr const char* kMadePair =
    "the pair is synthetic: the paper prints how often its draft is right, and neither how sure it "
    "is of that nor how often its second guess is right";

// And where the threshold of EdgeLLM and LLMCad adapts.
inline constexpr const char* kRisingThreshold =
    "by equation 3 the threshold rises with each verification that finds an error, until a round "
    "gives three to five tokens, where the papers draft 12 to 15; with a threshold that stays, as "
    "in the policy '-navigation', the same tree is about one and a half times as fast";

inline constexpr double kRelativeBand = 0.15;

void claim_near(const std::string& what, double printed, double ours, const char* reason,
                Findings& findings);
// A statement in words: the one is at least the other, less this share.
void claim_at_least(const std::string& what, double one, double other, const char* reason,
                    Findings& findings, double slack = 0);
// A range in words, with the same band at both ends.
void claim_range(const std::string& what, const PrintedRange& printed, double ours,
                 const char* reason, Findings& findings);
// Nothing of ours stands beside it.
void quote(const std::string& what, double printed, Findings& findings);

}  // namespace outrider
