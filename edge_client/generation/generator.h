// Answers prompts with parts that others hold: tokens in, text as it is committed, and a report.
//
//   Generator generator({.tokenizer = tokenizer, .draft = &draft, .verifiers = verifier,
//                        .clock = clock}, listener);
//   std::stop_source stop;                                        // request_stop() from any thread
//   Result<AnswerReport> report = generator.answer({.prompt = prompt, .config = config},
//                                                  stop.get_token());
//
// Answers with prompts that begin alike, as the turns of a conversation, reuse the KV of earlier
// ones on both sides.
//
// Thread rule: one thread, on which the listener is called. Ownership: parts, the listener and the
// observer outlive the generator. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/request_headers.h"
#include "common/base/status.h"
#include "common/decoding/drafting/drafter.h"
#include "common/engine/constraint/constraint_compiler.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/conversation/conversation.h"
#include "common/serving/prices/device_power.h"
#include "common/serving/prices/prices.h"
#include "common/serving/record/recorder.h"
#include "edge_client/failover/failover_session.h"
#include "edge_client/flash/flash_model.h"
#include "edge_client/generation/elastic_target.h"
#include "edge_client/generation/generation_config.h"
#include "edge_client/generation/learnt_store.h"
#include "edge_client/generation/level_switch.h"
#include "edge_client/generation/local_draft.h"
#include "edge_client/report/answer_report.h"
#include "edge_client/report/device_energy.h"
#include "edge_client/session/decoding_session.h"
#include "edge_client/session/events.h"
#include "edge_client/session/provisional_text.h"
#include "edge_client/shell/runner.h"
#include "edge_client/verifiers/remote.h"

namespace outrider {

struct GeneratorParts {
  const Tokenizer& tokenizer;
  LocalDraft* draft = nullptr;  // null: the target decodes alone
  VerifierRoutes verifiers;
  bool accepts_server_nodes = true;  // servers may draft too
  bool shares_cores = false;         // the draft computes where this device's target does
  Mode mode = Mode::kOnline;         // auto: failover is filled in, and there are two verifiers
  FailoverSetup failover = {};
  RemoteVerifier* link = nullptr;        // whose bytes reports show; null: there is no link
  ElasticTarget* elastic = nullptr;      // the verifier's levels; null: it has none
  const VerifyEngine* engine = nullptr;  // of this device's target; null: none, or it has levels
  const FlashModel* flash = nullptr;     // whose passes reports show; null: no target is streamed
  const Clock& clock;
  SessionObserver* observer = nullptr;        // of all answers; null: none
  const Learning* learning = nullptr;         // between answers and runs; null: none
  DeviceEnergy* energy = nullptr;             // null: this device does not report it
  const Prices* prices = nullptr;             // null: nothing has a price
  const DevicePower* power = nullptr;         // of this device's parts; null: not known
  int threads = 1;                            // that compute here
  ConstraintCompiler* constraints = nullptr;  // of the tokenizer; null: answers have no form
  Recorder* recorder = nullptr;               // null: answers have no records
};

struct AnswerRequest {
  EncodedPrompt prompt;
  AnswerConfig config = {};
  std::string id =
      {};  // goes with its calls, for the server's log (request_headers.h); empty: none
  TraceHeaders trace = {};                // goes with its calls, too
  bool record = false;                    // its record comes with the report
  std::optional<TimePoint> came_at = {};  // its waiting counts for the slo; nothing: it comes now
};

class Generator final {
 public:
  Generator(const GeneratorParts& parts, AnswerListener& listener);

  // Blocks until the answer has ended; a stop that was requested, before the call or during it,
  // ends it. INVALID_ARGUMENT if the prompt itself is refused; how the answer ended is in the
  // report.
  Result<AnswerReport> answer(AnswerRequest request, const std::stop_token& stop);
  // From any thread: whether a level of the target can answer this, if it has levels. Errors: those
  // of LevelBook::choose(), which answer() would report after a stream has begun.
  Status check_level(const AnswerRequest& request) const;

 private:
  // Why this answer cannot be drafted; empty if it can.
  std::string cannot_draft() const;
  std::string speculation(const AnswerConfig& config) const;
  SpeculationOptions drafted(SpeculationOptions wanted) const;
  SpeculationOptions drafted_here(SpeculationOptions wanted) const;
  SpeculatorOptions speculator_options(const AnswerConfig& config) const;
  DecodingOptions decoding_options(const AnswerRequest& request) const;
  Result<ChoiceSettings> choice_settings(const TextOptions& text) const;
  bool begins_offline() const;
  LinkTraffic traffic() const;
  std::optional<double> joules() const;
  PairProfiles read_learnt();
  void learn(const DecodingSession& session);
  Result<LevelChoice> find_level(const AnswerRequest& request) const;
  Result<std::optional<LevelChoice>> choose_level(const AnswerRequest& request);
  // The parts of the current answer.
  struct AnswerParts {
    DecodingSession& session;
    const AnswerConfig& config;
    Drafter& drafter;
    const AnswerText& text;
    TimePoint came_at;
    const std::optional<LevelChoice>& level;  // nothing: the target has no levels
  };
  LevelSwitchDecorator::Plan level_plan(const AnswerParts& parts) const;
  void note_level(const LevelChoice& choice, AnswerRecord& record);
  void keep_record(RecordLines record, AnswerReport& report);
  void run(const AnswerParts& parts, const std::stop_token& stop, AnswerReport& report);
  void run(AnswerSession& session, const AnswerParts& parts, const std::stop_token& stop,
           AnswerReport& report);

  const GeneratorParts parts_;
  AnswerListener& listener_;
  Drafter no_draft_{DrafterOptions{}};  // stands where there is none
  FailoverMemory memory_;
  const std::shared_ptr<AnswerMemory> tree_memory_ = std::make_shared<AnswerMemory>();
  const std::unique_ptr<AnswerListener> sampled_;  // reads the device's power; null: it tells none
  Runner runner_;

  // These belong to earlier answers.
  std::string last_session_;
  bool cannot_learn_ = false;                 // and it was said
  bool has_warned_ = false;                   // learning
  std::array<std::string, 2> last_sessions_;  // by route
  std::string announced_;                     // what was said of speculation
  std::size_t level_ = 0;                     // that answers, or answered last
  std::optional<std::size_t> next_level_;     // a smaller one to which it may switch
  std::vector<LevelSwitch> switches_;         // the same answer's, to other levels
  bool draft_failed_ = false;
};

}  // namespace outrider
