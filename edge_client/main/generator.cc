// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/generator.h"

#include <algorithm>
#include <fstream>
#include <future>
#include <limits>
#include <random>
#include <utility>

#include "common/conversation/streamed_text.h"
#include "common/exits/find_exits.h"
#include "common/model/emulated/paced_model.h"
#include "common/model/loader/loader.h"
#include "edge_client/verifiers/resident.h"

namespace outrider {
namespace {

// Nodes of the tree, and so slots of the draft's cache beyond the committed text.
constexpr std::size_t kTreeNodes = 256;

LoadOptions load_options(const std::string& directory, const AnswerOptions& options) {
  LoadOptions load;
  load.directory = directory;
  load.dtype = options.dtype;
  load.threads = options.threads;
  return load;
}

// With its whole context: -c is the answer's length, and where a draft has less, drafting ends
// there and the answer goes on.
Result<std::unique_ptr<Model>> load_draft(const AnswerOptions& options) {
  return load_model(load_options(options.model, options));
}

Result<std::unique_ptr<Model>> load_target(const AnswerOptions& options) {
  LoadOptions load = load_options(options.target, options);
  if (options.context > 0) load.max_context = options.context;
  return load_model(load);
}

// Whether the edge may ask its verifier for exit reports: plain decoding and plain drafting never.
bool wants_exits(const AnswerOptions& options) {
  return wants_draft(options) && strategy_of(options) != Strategy::kSd;
}

}  // namespace

Result<std::unique_ptr<Generator>> Generator::create(const AnswerOptions& options,
                                                     AnswerListener& listener) {
  std::future<Result<std::unique_ptr<Model>>> draft;
  if (wants_draft(options)) {
    draft = std::async(std::launch::async, [&] { return load_draft(options); });
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::string directory, tokenizer_directory(options));
  OUTRIDER_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(directory));
  std::unique_ptr<Generator> self(new Generator(options, std::move(tokenizer)));
  OUTRIDER_RETURN_IF_ERROR(self->make_verifier());
  if (draft.valid()) {
    OUTRIDER_RETURN_IF_ERROR(self->check_draft_tokenizer());
    OUTRIDER_RETURN_IF_ERROR(self->take_draft(draft.get()));
  } else {
    self->drafter_ = std::make_unique<Drafter>(DrafterOptions{});
  }
  self->runner_ =
      std::make_unique<Runner>(*self->verifier_, self->worker_.get(), self->clock_, listener);
  return self;
}

Generator::~Generator() = default;

// The server compares our tokenizer with the target's; whether the draft speaks it, only we know.
Status Generator::check_draft_tokenizer() const {
  if (options_.tokenizer.empty()) return {};
  const Result<Tokenizer> drafts = Tokenizer::load(options_.model);
  // A directory without a tokenizer of its own leaves nothing to compare.
  if (drafts.status().code() == StatusCode::kNotFound) return {};
  if (!drafts.ok()) return drafts.status();
  if (drafts->content_hash() == tokenizer_.content_hash()) return {};
  return failed_precondition("the draft " + options_.model + " has another tokenizer (" +
                             drafts->content_hash() + ") than --tokenizer " + options_.tokenizer +
                             " (" + tokenizer_.content_hash() +
                             "); use a draft of the same family");
}

Status Generator::take_draft(Result<std::unique_ptr<Model>> loaded) {
  if (!loaded.ok()) return loaded.status().with_context("draft " + options_.model);
  draft_ = *std::move(loaded);
  if (!options_.pace_step.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(PaceCurve pace, PaceCurve::parse(options_.pace_step));
    draft_ = std::make_unique<PacedModel>(std::move(draft_), std::move(pace), clock_);
  }
  const ModelInfo& info = draft_->info();
  const Position context =
      options_.context > 0 ? std::min(options_.context, info.max_positions) : info.max_positions;
  const auto capacity = static_cast<std::int32_t>(std::min<Position>(
      context + static_cast<Position>(kTreeNodes), std::numeric_limits<std::int32_t>::max()));
  Result<std::unique_ptr<DraftEngine>> engine = DraftEngine::create(*draft_, clock_, capacity);
  if (!engine.ok()) {
    return engine.status().with_context("the draft's cache of " + std::to_string(capacity) +
                                        " tokens (ask for less with -c)");
  }
  worker_ = std::make_unique<DraftWorker>(*std::move(engine));
  drafter_ = std::make_unique<Drafter>(DrafterOptions{.max_positions = context,
                                                      .vocab_size = info.vocab_size,
                                                      .workers = options_.predraft_workers,
                                                      .max_nodes = kTreeNodes});
  return {};
}

Status Generator::make_verifier() {
  if (options_.target.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(const Address server, parse_address(options_.server));
    auto remote = std::make_unique<RemoteVerifier>(RemoteOptions{.server = server});
    remote_ = remote.get();
    verifier_ = std::move(remote);
    return {};
  }
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer targets, Tokenizer::load(options_.target));
  Result<std::unique_ptr<Model>> target = load_target(options_);
  if (!target.ok()) return target.status().with_context("target " + options_.target);
  target_ = *std::move(target);
  SchedulerOptions scheduling;
  scheduling.tokenizer_hash = targets.content_hash();
  if (wants_exits(options_)) {
    Result<FoundExits> found = find_exits({.model = options_.target}, target_->info());
    if (!found.ok()) return found.status().with_context("target " + options_.target);
    exits_ = std::move(found->heads);
    scheduling.exits = exits_.get();
  }
  engine_ = std::make_unique<VerifyEngine>(*target_, scheduling, clock_);
  verifier_ = std::make_unique<ResidentVerifier>(*engine_);
  return {};
}

std::string Generator::speculation() const {
  if (draft_failed_) return "OFF because the draft model failed before";
  if (draft_ != nullptr) {
    return "ON (" + std::string(name_of(strategy_of(options_))) + ", draft " + draft_->info().name +
           ", γ=" + std::to_string(options_.gamma) + ")";
  }
  if (options_.strategy == "ar") return "OFF because --strategy ar was chosen";
  return "OFF because no draft was given (--model DIR)";
}

// prompt + -n, within -c; the target's own context is checked when it is known.
Result<Position> Generator::end_position(std::size_t prompt_length) const {
  const auto length = static_cast<Position>(prompt_length);
  if (length == 0) {
    return invalid_argument(
        "the prompt is empty, and this tokenizer begins no text with a token of its own; "
        "write something");
  }
  if (options_.context > 0 && length >= options_.context) {
    return invalid_argument("the prompt has " + std::to_string(length) +
                            " tokens, but the context holds " + std::to_string(options_.context) +
                            " (-c); shorten the prompt or raise -c");
  }
  constexpr Position kNoEnd = std::numeric_limits<std::int32_t>::max();
  const Position context = options_.context > 0 ? options_.context : kNoEnd;
  if (options_.max_tokens < 0 || options_.max_tokens > context - length) return context;
  return length + options_.max_tokens;
}

DecodingOptions Generator::decoding_options(const Turn& turn) {
  const bool drafts = draft_ != nullptr && !draft_failed_;
  return {.strategy = drafts ? strategy_of(options_) : Strategy::kAr,
          .gamma = options_.gamma,
          .fan_out = options_.fan_out,
          .queue = queue_of(options_),
          .optimize = goal_of(options_),
          .uplink_budget = options_.uplink_budget,
          .speculation = {},
          .tokenizer_hash = tokenizer_.content_hash(),
          .token_bound = tokenizer_.vocab_size(),
          .sampling = options_.sampling,
          .seed = options_.seed,
          .stop_ids = turn.stop_ids,
          .replaced_session = last_session_,
          .observer = options_.trace.empty() ? nullptr : &recorder_,
          .reconnect_timeout = from_ms(options_.reconnect_timeout_s * 1e3),
          .jitter_seed = std::random_device{}()};
}

LinkTraffic Generator::traffic() const {
  if (remote_ == nullptr) return {};
  const LinkBytes bytes = remote_->link_bytes();
  return {.payload_up = bytes.payload_up,
          .payload_down = bytes.payload_down,
          .framed_up = bytes.framed_up(),
          .framed_down = bytes.framed_down()};
}

Status Generator::write_trace() const {
  if (options_.trace.empty()) return {};
  std::ofstream file(options_.trace, std::ios::binary);
  file << timeline_.chrome_trace();
  file.close();
  if (file) return {};
  return invalid_argument("--trace " + options_.trace + ": cannot be written");
}

Result<AnswerReport> Generator::answer(Turn turn) {
  DecodingOptions decoding = decoding_options(turn);
  const std::string how = speculation();
  if (how != std::exchange(announced_, how)) decoding.speculation = how;
  OUTRIDER_ASSIGN_OR_RETURN(decoding.end_position, end_position(turn.prompt.size()));
  OUTRIDER_ASSIGN_OR_RETURN(StopStrings stops, StopStrings::create(options_.stop));
  StreamedText text(tokenizer_, std::move(stops));
  const LinkTraffic before = traffic();
  DecodingSession session(decoding, std::move(turn.prompt), *drafter_, text);

  AnswerReport report;
  report.finish = runner_->run(session, {.sampling = decoding.sampling, .seed = decoding.seed});
  draft_failed_ = draft_failed_ || session.draft_failed();
  if (!session.session_id().empty()) last_session_ = session.session_id();
  report.text = text.text();
  report.ids = session.answer();
  report.stats = session.stats();
  report.stop_string = text.stop_string();
  if (remote_ != nullptr) report.traffic = traffic() - before;
  report.target = session.opened().model_name;
  if (draft_ != nullptr) report.draft = draft_->info().name;
  report.strategy = name_of(decoding.strategy);
  report.speculation = how;
  if (session.speculation_ended()) {
    report.speculation += ", then OFF because " + *session.speculation_ended();
  }
  report.paced = !options_.pace_step.empty();
  return report;
}

}  // namespace outrider
