// Tokenizer, draft and verifier as a GenerationConfig names them: the one place where an edge is
// put together from directories and an address.
//
//   const auto setup = *EdgeSetup::load(config);
//   Generator generator(setup->parts(), listener);
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <stop_token>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/engine/constraint/constraint_compiler.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/prices/prices.h"
#include "edge_client/generation/generation_config.h"
#include "edge_client/generation/generator.h"
#include "edge_client/generation/local_draft.h"
#include "edge_client/generation/local_target.h"
#include "edge_client/generation/target_chat.h"
#include "edge_client/report/device_energy.h"
#include "edge_client/verifiers/remote.h"
#include "edge_client/verifiers/remote_probe.h"
#include "edge_client/verifiers/stock/stock_verifier.h"

namespace outrider {

// How the server of `config` is reached. Errors name the file or flag.
Result<RemoteOptions> remote_options(const GenerationConfig& config);

// Asks whether the server of `config` can be reached. The same errors.
Result<std::unique_ptr<RemoteProbe>> server_probe(const GenerationConfig& config);

class EdgeSetup final {
 public:
  // config has passed validate(). The draft is loaded beside the rest.
  static Result<std::unique_ptr<EdgeSetup>> load(const GenerationConfig& config);

  ~EdgeSetup() { stop_asking_.request_stop(); }
  EdgeSetup(const EdgeSetup&) = delete;
  EdgeSetup& operator=(const EdgeSetup&) = delete;

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  // The chat by which prompts are written, for as long as this object lives.
  TargetChat& chat() { return *chat_; }
  // How answers are made where nobody asks for something else, with the target's sampling, which is
  // said if it differs. UNAVAILABLE as TargetChat::sampling(), which wait() prevents.
  Result<AnswerConfig> answer_config();
  // This device's; null: it has none.
  const LocalTarget* target() const { return target_.get(); }
  // Null: the server is Outrider's, or there is none.
  StockVerifier* stock() { return stock_.get(); }
  // Null: no target is streamed from a pack.
  const FlashModel* flash() const { return target_ != nullptr ? target_->flash() : nullptr; }
  // For generators that this object and the observer outlive, one at a time.
  GeneratorParts parts(SessionObserver* observer = nullptr);

 private:
  explicit EdgeSetup(const GenerationConfig& config) : config_(config) {}
  Status read_files();
  Status load_target();
  Status draft_by_level();
  Status rest_slow_draft();
  Status add_lookup();
  void remember_pruning();
  void ask_for_template();
  Status find_template(const std::string& tokenizer);
  Verifier* server();

  const GenerationConfig config_;
  SystemClock clock_;
  ComputeGate gate_;                        // between a streamed target and the draft
  std::optional<Tokenizer> tokenizer_;      // there once load() has returned
  std::unique_ptr<LocalTarget> target_;     // null: the server decides alone
  std::unique_ptr<LocalDraft> draft_;       // null: none; perhaps a level of target_
  bool shares_cores_ = false;               // draft_ computes on the cores of target_
  std::unique_ptr<RemoteVerifier> remote_;  // null: target_ decides alone, or stock_
  std::unique_ptr<StockVerifier> stock_;    // null: the server is Outrider's, or there is none
  std::stop_source stop_asking_;
  // The server's first answer to what its chat template is; taken by chat_. Invalid: not asked.
  std::future<Result<TargetDescription>> told_;
  std::unique_ptr<RemoteProbe> probe_;  // null: one of them decides alone
  std::optional<DeviceEnergy> energy_ = DeviceEnergy::open(clock_);
  std::optional<Prices> prices_;
  std::unique_ptr<Recorder> recorder_;
  std::optional<DevicePower> power_;
  std::optional<ConstraintCompiler> constraints_;  // there with the tokenizer
  std::optional<Learning> learning_;  // nothing: nothing is kept, or nothing is drafted
  std::unique_ptr<TargetChat> chat_;  // there once load() has returned; asks remote_
};

}  // namespace outrider
