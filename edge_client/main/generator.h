// Everything that answers a prompt, put together from flags: tokenizer, draft, verifier, threads.
// The one place of the edge program where all parts are wired.
//
//   create (answer)*
//
// Thread rule: create() and answer() from the main thread; cancel() from any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/drafting/drafter.h"
#include "common/exits/exit_heads.h"
#include "common/model/model.h"
#include "common/text/tokenizer.h"
#include "common/verify/engine.h"
#include "edge_client/main/options.h"
#include "edge_client/main/report.h"
#include "edge_client/metrics/timeline_recorder.h"
#include "edge_client/shell/runner.h"
#include "edge_client/verifiers/remote.h"

namespace outrider {

class Generator final {
 public:
  // options have passed validate(). Loads what is needed, the draft beside the tokenizer.
  static Result<std::unique_ptr<Generator>> create(const AnswerOptions& options,
                                                   AnswerListener& listener);
  ~Generator();

  const Tokenizer& tokenizer() const { return tokenizer_; }
  // Writes what happened in all answers so far to options.trace; without it, does nothing.
  Status write_trace() const;

  struct Turn {
    std::vector<TokenId> prompt;    // ids of all the text so far
    std::vector<TokenId> stop_ids;  // beside the target's own
  };

  // INVALID_ARGUMENT if the prompt itself is refused; how the answer ended is in the report.
  // Later turns reuse the KV of earlier ones on both sides.
  Result<AnswerReport> answer(Turn turn);

  // Asks the answer in work to end.
  void cancel() { runner_->cancel(); }

 private:
  explicit Generator(const AnswerOptions& options, Tokenizer tokenizer)
      : options_(options), tokenizer_(std::move(tokenizer)) {}

  Status check_draft_tokenizer() const;
  Status take_draft(Result<std::unique_ptr<Model>> loaded);
  Status make_verifier();
  DecodingOptions decoding_options(const Turn& turn);
  LinkTraffic traffic() const;
  std::string speculation() const;
  Result<Position> end_position(std::size_t prompt_length) const;

  const AnswerOptions options_;
  const Tokenizer tokenizer_;
  SystemClock clock_;
  Timeline timeline_;  // of all answers; filled if options.trace is set
  TimelineRecorder recorder_{timeline_};

  std::unique_ptr<Model> draft_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<DraftWorker> worker_;

  std::unique_ptr<Model> target_;         // --target
  std::unique_ptr<ExitHeads> exits_;      // likewise; null: none
  std::unique_ptr<VerifyEngine> engine_;  // likewise
  RemoteVerifier* remote_ = nullptr;      // verifier_, if it is that one
  std::unique_ptr<Verifier> verifier_;

  std::unique_ptr<Runner> runner_;

  // Of the turns before.
  std::string last_session_;
  std::string announced_;  // what was said of speculation
  bool draft_failed_ = false;
};

}  // namespace outrider
