// Runs the answers of a grid in virtual time: the real models at an emulated device's pace, and a
// link by its profile, on one thread without waiting (sim). All answers of a prompt share the
// rows that one of them computed.
//
// Bytes are those of messages, approximately (message_size() of sim/sim_link.h). The link is
// the proxy's model of TCP.
//
// Thread rule: one thread. Ownership: the plan outlives it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness/grid.h"
#include "common/decoding/exits/exit_heads.h"
#include "common/engine/sampling/constraint.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/conversation/conversation.h"
#include "edge_client/report/answer_record.h"
#include "edge_client/speculation/strategy.h"
#include "sim/memoized_model.h"
#include "sim/virtual_run.h"

namespace outrider {

// An answer in virtual time, as an edge's last line would report it.

// name: the variant's name; draft: the draft model's name.
AnswerRecord record_of(VirtualAnswer answer, const StrategyChoice& strategy,
                       const std::string& name, const std::string& draft);

class VirtualExecutor final : public AnswerExecutor {
 public:
  // INVALID_ARGUMENT for a setting without a pace, a variant with flags of the programs, or a
  // running server in the plan.
  static Result<std::unique_ptr<VirtualExecutor>> create(const GridPlan& plan);

  RunClock clock() const override { return RunClock::kVirtual; }
  PromptOrder order() const override { return PromptOrder::kOutside; }
  std::string link_kind(std::size_t) const override { return "simulated"; }

  Status warm_up() override { return {}; }
  Result<std::vector<TokenId>> reference(std::size_t prompt, const GridSetting& setting) override;
  Status begin(std::size_t) override { return {}; }
  Result<EdgeAnswer> answer(const AnswerJob& job) override;
  PaceCounts end() override { return {}; }

  std::string target_fingerprint() const { return target_.info().fingerprint; }
  std::string draft_fingerprint() const { return draft_.info().fingerprint; }

 private:
  struct Parts {
    std::unique_ptr<Model> target;
    std::unique_ptr<Model> draft;
    std::unique_ptr<ExitHeads> exits;
    Tokenizer tokenizer;
    std::vector<EncodedPrompt> prompts;
    AnswerConstraint form;
  };

  VirtualExecutor(const GridPlan& plan, Parts parts);

  void use_prompt(std::size_t prompt);
  int gamma_of(const GridVariant& variant) const {
    return variant.gamma > 0 ? variant.gamma : plan_.gamma;
  }
  int connect_trips(const GridSetting& setting) const {
    return plan_.connected ? 0 : setting.connect_trips();
  }
  SimEdgeSetup setup_of(const GridVariant& variant, std::size_t prompt,
                        const SamplingParams& sampling) const;
  // wire: null for an answer without a link; observer, text: may be null.
  Result<VirtualAnswer> decode(const GridVariant& variant, const GridSetting& setting,
                               std::size_t prompt, std::shared_ptr<LinkWire> wire,
                               SessionObserver* observer, AnswerText* text);
  bool gives_unverified(const GridVariant& variant) const {
    return plan_.unverified_by_ms && drafts_on_edge(variant);
  }

  const GridPlan& plan_;
  std::optional<EnergyModel> energy_;  // the plan's, with the sizes of the models
  MemoizedModel target_;
  MemoizedModel draft_;
  const std::unique_ptr<ExitHeads> exits_;  // null: none
  const Tokenizer tokenizer_;
  const std::vector<EncodedPrompt> prompts_;  // [prompt]
  const AnswerConstraint form_;               // of each answer
  std::optional<std::size_t> prompt_;         // whose rows the models have memoized
  // The experience with drafts beside the target, by setting and variant: each has a server of its
  // own, which has answered the prompts before, but not this one.
  std::map<std::pair<std::string, std::string>, DraftExperience> draft_experiences_;
};

}  // namespace outrider
