// The answers of a grid by real programs: an outrider-server and an outrider-edge for each answer,
// over gRPC, each on a core of its own, with a link between them. Servers of a setting run as long
// as the setting does; one whose answer failed is started anew for the next.
//
// Where the plan names a server that somebody else runs, no link and no target's pace is emulated.
//
// Thread rule: one thread. Ownership: the plan outlives it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/executor.h"
#include "bench/harness/server_pool.h"

namespace outrider {

class RealExecutor final : public AnswerExecutor {
 public:
  explicit RealExecutor(const GridPlan& plan);

  RunClock clock() const override { return RunClock::kReal; }
  PromptOrder order() const override { return PromptOrder::kInside; }
  std::string link_kind(std::size_t setting) const override { return link_kinds_[setting]; }

  Status warm_up() override;
  Result<std::vector<TokenId>> reference(std::size_t prompt, const GridSetting& setting) override;
  Status begin(std::size_t setting) override;
  Result<EdgeAnswer> answer(const AnswerJob& job) override;
  PaceCounts end() override;

 private:
  // One run of the edge program.
  struct EdgeRun {
    const GridVariant& variant;
    const GridSetting& setting;
    const std::string& prompt;
    int max_tokens;
    bool traced = false;
  };

  std::optional<int> core(std::size_t index) const;
  std::vector<std::string> arguments(const LinkedServer& server, const EdgeRun& run) const;
  Result<EdgeAnswer> decode(const LinkedServer& server, const EdgeRun& run);
  // An answer that was made beside the target, as it arrives at the user.
  Result<EdgeAnswer> delivered(EdgeAnswer answer, const AnswerJob& job) const;
  ServerPool& plain_servers();

  const GridPlan& plan_;
  const std::vector<int> cores_;
  const GridSetting plain_;  // no pace, no delay
  std::string edge_program_;
  std::unique_ptr<ServerPool> references_;  // servers of plain_
  std::unique_ptr<ServerPool> servers_;     // of the setting that is begun
  std::vector<std::string> link_kinds_;     // [setting]
};

}  // namespace outrider
