// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/generator.h"

#include <limits>
#include <random>
#include <utility>

#include "common/base/random_id.h"
#include "common/conversation/answer_length.h"
#include "common/conversation/streamed_text.h"
#include "edge_client/generation/stream_watch.h"
#include "edge_client/report/answer_ledger.h"
#include "edge_client/report/assumptions.h"

namespace outrider {
namespace {

// prompt + -n, within -c; the target's own context is checked when it is known.
Result<Position> end_position(std::size_t prompt_length, const AnswerConfig& config) {
  const auto length = static_cast<Position>(prompt_length);
  if (length == 0) {
    return invalid_argument(
        "the prompt is empty, and this tokenizer begins no text with a token of its own; "
        "write something");
  }
  constexpr Position kNoEnd = std::numeric_limits<std::int32_t>::max();
  const Position context = config.context > 0 ? config.context : kNoEnd;
  OUTRIDER_RETURN_IF_ERROR(check_prompt_fits(length, context, "shorten the prompt or raise -c"));
  return answer_end(length, config.max_tokens, context);
}

std::string round_text(const AnswerConfig& config) {
  const char* const sign = ends_rounds_early(strategy_of(config), config.optimize) ? "γ<=" : "γ=";
  const std::string length = sign + std::to_string(draft_length_of(config));
  if (config.tree.kind != TreeKind::kChain) {
    return std::string("trees: ") + name_of(config.tree.kind);
  }
  const bool chain = config.branches == 1 || strategy_of(config) == Strategy::kMirror;
  return chain ? length : length + ", " + std::to_string(config.branches) + " branches";
}

std::string offline_text(const GeneratorParts& parts, const AnswerConfig& config) {
  if (parts.mode != Mode::kAuto || !config.offline_tree || config.strategy) return "";
  return "; offline " + round_text(offline_config(config));
}

bool accepts_other_arithmetic(const GeneratorParts& parts, const AnswerConfig& config) {
  const bool fails_over = parts.mode == Mode::kAuto && !parts.failover.strict_target;
  return config.accept_other_arithmetic || fails_over;
}

}  // namespace

Generator::Generator(const GeneratorParts& parts, AnswerListener& listener)
    : parts_(parts),
      listener_(listener),
      memory_(parts.failover.handback_after),
      runner_(parts.verifiers, parts.draft != nullptr ? &parts.draft->worker() : nullptr,
              parts.clock, listener) {}

bool Generator::drafts(const AnswerConfig& config) const {
  return parts_.draft != nullptr && !draft_failed_ && strategy_of(config) != Strategy::kAr;
}

std::string Generator::speculation(const AnswerConfig& config) const {
  if (config.strategy == Strategy::kAr) return "OFF because --strategy ar was chosen";
  if (parts_.draft == nullptr) return "OFF because no draft was given (--model DIR)";
  if (draft_failed_) return "OFF because the draft model failed before";
  return "ON (" + std::string(name_of(strategy_of(config))) + ", draft " +
         parts_.draft->info().name + ", " + round_text(config) + offline_text(parts_, config) + ")";
}

bool Generator::begins_offline() const {
  return memory_.route == Route::kOffline || memory_.forbidden;
}

DecodingOptions Generator::decoding_options(const AnswerRequest& request) const {
  DecodingOptions online = decoding_options(request, request.config);
  if (parts_.mode != Mode::kAuto || !request.config.offline_tree) return online;
  DecodingOptions offline = decoding_options(request, offline_config(request.config));
  if (begins_offline()) {
    offline.other = speculation_way(online);
    return offline;
  }
  online.other = speculation_way(offline);
  return online;
}

DecodingOptions Generator::decoding_options(const AnswerRequest& request,
                                            const AnswerConfig& config) const {
  return {.strategy = drafts(config) ? strategy_of(config) : StrategyChoice(Strategy::kAr),
          .gamma = draft_length_of(config),
          .branches = config.branches,
          .tree = config.tree,
          .provisional = config.provisional,
          .tree_memory = tree_memory_,
          .fan_out = config.fan_out,
          .queue = config.queue,
          .optimize = config.optimize,
          .uplink_budget = config.uplink_budget,
          .speculation = {},
          .tokenizer_hash = parts_.tokenizer.content_hash(),
          .token_bound = parts_.tokenizer.vocab_size(),
          .sampling = config.sampling,
          .seed = config.seed,
          .stop_ids = config.ignore_eos ? std::vector<TokenId>() : request.prompt.stop_ids,
          .ignore_target_stops = config.ignore_eos,
          .template_hash = request.prompt.template_hash,
          .replaced_session = last_session_,
          .session_key = random_id(),
          .accept_other_arithmetic = accepts_other_arithmetic(parts_, config),
          .accept_other_model = parts_.mode == Mode::kAuto && parts_.failover.other_model,
          .observer = parts_.observer,
          .reconnect_timeout = config.reconnect_timeout,
          .jitter_seed = std::random_device{}()};
}

LinkTraffic Generator::traffic() const {
  if (parts_.link == nullptr) return {};
  const LinkBytes bytes = parts_.link->link_bytes();
  return {.payload_up = bytes.payload_up,
          .payload_down = bytes.payload_down,
          .framed_up = bytes.framed_up(),
          .framed_down = bytes.framed_down()};
}

std::optional<double> Generator::joules() const {
  return parts_.energy != nullptr ? parts_.energy->joules() : std::nullopt;
}

Finish Generator::run(AnswerBrain& brain, const AnswerParts& parts, const std::stop_token& stop) {
  const Runner::Guessing guessing{.sampling = parts.config.sampling, .seed = parts.config.seed};
  if (!parts.config.show_provisional) return runner_.run(brain, guessing, stop);
  ProvisionalTextDecorator decorator(brain, parts.session, parts.text);
  return runner_.run(decorator, guessing, stop);
}

void Generator::run(const AnswerParts& parts, const std::stop_token& stop, AnswerReport& report) {
  DecodingSession& session = parts.session;
  report.mode = parts_.mode;
  if (parts_.mode != Mode::kAuto) {
    report.finish = run(session, parts, stop);
    if (!session.session_id().empty()) last_session_ = session.session_id();
    const DecodingStats& stats = session.stats();
    if (parts_.mode == Mode::kOffline) report.failover.offline_compute = stats.target_compute;
    if (parts_.mode == Mode::kOffline && stats.started && stats.last_token) {
      report.failover.offline = *stats.last_token - *stats.started;
    }
    return;
  }
  FailoverOptions options = parts_.failover;
  options.replaced = last_sessions_;
  FailoverSession failover(std::move(options), session, memory_);
  report.finish = run(failover, parts, stop);
  report.failover = failover.figures();
  last_sessions_ = failover.session_ids();
}

PairProfiles Generator::read_learnt() {
  if (parts_.learning == nullptr) return {};
  KeptLearning kept = parts_.learning->store.read(parts_.learning->side);
  if (!kept.ignored.empty() && !std::exchange(told_of_ignored_, true)) {
    listener_.on_say({Say::Level::kWarning, "learning: begins anew because " + kept.ignored});
  }
  return std::move(kept.pairs);
}

void Generator::learn(const DecodingSession& session) {
  const std::string& target = session.speculation().profiled_target();
  if (parts_.learning == nullptr || target.empty()) return;
  const std::optional<PairProfile> learnt = session.speculation().profile();
  if (!learnt) return;
  const Status kept = parts_.learning->store.write(parts_.learning->side, target, *learnt);
  if (kept.ok() || std::exchange(cannot_learn_, true)) return;
  listener_.on_say({Say::Level::kWarning, "learning: OFF because " + kept.message()});
}

Result<AnswerReport> Generator::answer(AnswerRequest request, const std::stop_token& stop) {
  const AnswerConfig& config = request.config;
  DecodingOptions decoding = decoding_options(request);
  const std::string how = speculation(config);
  if (how != std::exchange(announced_, how)) decoding.speculation = how;
  OUTRIDER_ASSIGN_OR_RETURN(decoding.end_position, end_position(request.prompt.ids.size(), config));
  OUTRIDER_ASSIGN_OR_RETURN(StopStrings stops, StopStrings::create(config.stop));
  StreamedText text(parts_.tokenizer, std::move(stops));
  const LinkTraffic before = traffic();
  const StreamWatch streamed(parts_.flash);
  const std::optional<double> joules_before = joules();
  const std::uint64_t overruns_before = parts_.draft != nullptr ? parts_.draft->overruns() : 0;
  decoding.profiles = read_learnt();
  Drafter& drafter = parts_.draft != nullptr ? parts_.draft->drafter() : no_draft_;
  DecodingSession session(decoding, std::move(request.prompt.ids), drafter, text);

  if (parts_.link != nullptr) parts_.link->name_request(std::move(request.id));

  AnswerReport report;
  run({session, config, text}, stop, report);
  report.assumed = assumed_text(session.opened(), decoding.profiles);
  learn(session);
  draft_failed_ = draft_failed_ || session.speculation().draft_failed();
  report.text = text.text();
  report.ids = session.answer();
  report.stats = session.stats();
  report.stop_string = text.stop_string();
  if (parts_.link != nullptr) report.traffic = traffic() - before;
  report.streamed = streamed.since();
  if (const auto now = joules(); now && joules_before) report.joules = *now - *joules_before;
  report.bill = bill_of(parts_.prices, ledger_entry(report));
  report.target = session.opened().model_name;
  report.context = session.opened().limits.max_positions;
  if (parts_.draft != nullptr) {
    report.draft = parts_.draft->info().name;
    report.paced = parts_.draft->is_paced();
    report.pace_overruns = parts_.draft->overruns() - overruns_before;
  }
  report.strategy = name_of(decoding.strategy);
  report.speculation = how;
  if (session.speculation().ended()) {
    report.speculation += ", then OFF because " + *session.speculation().ended();
  }
  return report;
}

}  // namespace outrider
