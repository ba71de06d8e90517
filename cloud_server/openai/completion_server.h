// The server's OpenAI routes (common/serving/openai/routes.h), for clients without a draft: the
// target decodes alone, under the same scheduler as edges' sessions.
//
// Where the server has keys, a request needs one, Authorization: Bearer KEY or X-Api-Key: KEY, or a
// certificate, as edges do. It is a session of their tenant. Thread rule: the routes' functions on
// the HTTP server's thread. Ownership: all parts outlive it, and it outlives its routes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cloud_server/admission/authenticator.h"
#include "cloud_server/admission/tenants.h"
#include "cloud_server/faults/fault_log.h"
#include "common/base/clock.h"
#include "common/decoding/levels/level_book.h"
#include "common/decoding/request/sampling_defaults.h"
#include "common/decoding/verify/scheduling/engine.h"
#include "common/engine/constraint/constraint_compiler.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/http/routes.h"
#include "common/serving/openai/routes.h"
#include "common/serving/record/recorder.h"
#include "common/serving/tracing/stream_spans.h"

namespace outrider {

struct CompletionServerOptions {
  std::string model_name;  // the name that clients use
  std::string tokenizer_hash;
  ChatSource chat = {};  // the target's
  AnswerReading reading = {};
  SamplingDefaults sampling = {};          // the target's, where requests are silent
  Position context = 0;                    // tokens of prompt and answer
  std::size_t max_choices = kMaxChoices;   // that are answered or may wait at a time
  Authenticator* authenticator = nullptr;  // null: no keys are required
  Tenants* tenants = nullptr;              // null: there are no quotas
  LevelBook* levels = nullptr;             // that requests may choose; null: one model answers all
  double watts = 0;                        // of the device while it answers; 0: not known
  Tracer* tracer = nullptr;                // outlives the routes; null: nothing is traced
  ConstraintCompiler* constraints = nullptr;  // outlives the routes; null: there are no forms
  Recorder* recorder = nullptr;               // the same; null: answers have no records
  // A stream has a comment after so long without anything else, while its prompt is computed.
  Duration keep_alive = std::chrono::seconds(5);
};

class CompletionServer final {
 public:
  // clock: of this process, outlives it.
  CompletionServer(VerifyEngine& engine, const Tokenizer& tokenizer, FaultLog& faults,
                   const Clock& clock, CompletionServerOptions options)
      : engine_(engine),
        tokenizer_(tokenizer),
        faults_(faults),
        clock_(clock),
        options_(std::move(options)) {}

  std::vector<HttpRoute> routes();

 private:
  Status check_caller(HttpRequest& request) const;
  Status complete(CompletionCall call);
  std::unique_ptr<StreamSpans> begin_trace(const CompletionCall& call,
                                           const std::string& tenant) const;
  Result<std::optional<LevelChoice>> choose_level(const CompletionCall& call) const;

  VerifyEngine& engine_;
  const Tokenizer& tokenizer_;
  FaultLog& faults_;
  const Clock& clock_;
  const CompletionServerOptions options_;
};

}  // namespace outrider
