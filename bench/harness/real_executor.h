// Runs the answers of a grid by real programs: an outrider-server and an outrider-edge for each
// answer, over gRPC, each on its own core, with a link between them. The servers of a setting run
// as long as the setting; after a failed answer the server is restarted.
//
// If the plan names a running server, neither a link nor a target's pace is emulated.
//
// Thread rule: one thread. Ownership: the plan outlives it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/grid.h"
#include "bench/harness/grid_plan.h"
#include "common/base/address.h"
#include "common/base/status.h"
#include "emulation/link/link.h"
#include "emulation/process/server_process.h"

namespace outrider {

// The properties of a server.
struct ServerWish {
  std::vector<std::string> flags = {};
  bool draft_alone = false;  // the draft at its own pace instead of the target, without delay
  bool without_exits = false;

  friend auto operator<=>(const ServerWish&, const ServerWish&) = default;
};

// Members end in reverse order: a server runs in its link's namespace.
struct LinkedServer {
  std::unique_ptr<Link> link;             // null: the plan's running server
  std::unique_ptr<ServerProcess> server;  // null: the plan's running server
  Address address;                        // for edges
  Address own_address;  // for programs beside the server; empty: the plan's running server
};

// The servers of one setting, each behind its own link: one per required kind.
class ServerPool final {
 public:
  // plan and setting must outlive the pool. core: the CPU that the servers run on.
  ServerPool(const GridPlan& plan, const GridSetting& setting, std::optional<int> core)
      : plan_(plan), setting_(setting), core_(core) {}

  // Starts one if there is none of this kind. Valid until stop() or its drop().
  Result<const LinkedServer*> find(const ServerWish& wish);

  // Discards a server that may be in a bad state; the next find() starts another.
  void drop(const ServerWish& wish);

  // Ends all servers. Returns the counts of their emulated paces, including dropped ones.
  PaceCounts stop();

 private:
  std::vector<std::string> model_arguments(const ServerWish& wish) const;
  Result<LinkedServer> start(const ServerWish& wish) const;

  const GridPlan& plan_;
  const GridSetting& setting_;
  const std::optional<int> core_;
  std::map<ServerWish, LinkedServer> servers_;
  PaceCounts dropped_;
};

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
  // An answer made beside the target, as it arrives at the user.
  Result<EdgeAnswer> delivered(EdgeAnswer answer, const AnswerJob& job) const;
  ServerPool& plain_servers();

  const GridPlan& plan_;
  const std::vector<int> cores_;
  const GridSetting plain_;  // no pace, no delay
  std::string edge_program_;
  std::unique_ptr<ServerPool> references_;  // servers of plain_
  std::unique_ptr<ServerPool> servers_;     // of the current setting
  std::vector<std::string> link_kinds_;     // [setting]
};

}  // namespace outrider
