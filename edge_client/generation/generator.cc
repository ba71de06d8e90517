// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/generator.h"

#include <limits>
#include <random>
#include <utility>

#include "common/base/random_id.h"
#include "common/conversation/answer_length.h"
#include "common/conversation/streamed_text.h"
#include "edge_client/report/answer_ledger.h"
#include "edge_client/report/answer_report.h"

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
  return answer_end(length, config.text.max_tokens, context);
}

std::string round_text(const SpeculationOptions& options) {
  const StrategyChoice strategy = options.chosen();
  const char* const sign = ends_rounds_early(strategy, options.optimize) ? "γ<=" : "γ=";
  const std::string length = sign + std::to_string(options.draft_length());
  if (options.tree.kind != TreeKind::kChain) {
    return std::string("trees: ") + name_of(options.tree.kind);
  }
  const bool chain = options.branches == 1 || strategy == Strategy::kMirror;
  return chain ? length : length + ", " + std::to_string(options.branches) + " branches";
}

std::string offline_text(const GeneratorParts& parts, const AnswerConfig& config) {
  if (parts.mode != Mode::kAuto || !config.offline_tree || config.speculation.strategy) return "";
  return "; offline " + round_text(offline_speculation(config));
}

ReconnectOptions reconnect_options(const GeneratorParts& parts, const AnswerConfig& config) {
  ReconnectOptions options = config.reconnect;
  if (parts.mode == Mode::kAuto && !parts.failover.options.strict_target) {
    options.accept_other_arithmetic = true;
  }
  return options;
}

// What the passes of one answer read and waited for, where its target is streamed. The model
// outlives it.
class StreamWatch final {
 public:
  // flash: null if no target is streamed.
  explicit StreamWatch(const FlashModel* flash) : flash_(flash) {
    if (flash_ == nullptr) return;
    bytes_before_ = flash_->stats().bytes_read;
    times_before_ = flash_->log().times();
  }

  std::optional<StreamedRecord> since() const {
    if (flash_ == nullptr) return std::nullopt;
    const StreamedTimes times = flash_->log().times() - times_before_;
    if (times.passes == 0) return std::nullopt;
    return StreamedRecord{.passes = times.passes,
                          .bytes_read = flash_->stats().bytes_read - bytes_before_,
                          .length = times.length,
                          .computing = times.computing,
                          .waiting = times.waiting,
                          .reading = times.reading,
                          .disk_idle = times.length - times.reading};
  }

 private:
  const FlashModel* const flash_;
  std::uint64_t bytes_before_ = 0;
  StreamedTimes times_before_;
};

}  // namespace

Generator::Generator(const GeneratorParts& parts, AnswerListener& listener)
    : parts_(parts),
      listener_(listener),
      memory_(parts.failover.options.failback_after),
      runner_(parts.verifiers, parts.draft != nullptr ? &parts.draft->worker() : nullptr,
              parts.clock, listener) {}

std::string Generator::speculation(const AnswerConfig& config) const {
  const SpeculationOptions& chosen = config.speculation;
  if (chosen.strategy == Strategy::kAr) return "OFF because --strategy ar was chosen";
  if (parts_.draft == nullptr) return "OFF because --draft-source none was chosen";
  if (draft_failed_) return "OFF because the draft model failed before";
  return "ON (" + std::string(name_of(chosen.chosen())) + ", draft " + parts_.draft->info().name +
         ", " + round_text(chosen) + offline_text(parts_, config) + ")";
}

bool Generator::begins_offline() const {
  return memory_.route == Route::kOffline || memory_.forbidden;
}

// What cannot draft decodes plainly.
SpeculationOptions Generator::drafted(SpeculationOptions wanted) const {
  if (parts_.draft == nullptr || draft_failed_) wanted.strategy = Strategy::kAr;
  return wanted;
}

SpeculatorOptions Generator::speculator_options(const AnswerConfig& config) const {
  SpeculatorOptions options{.first = drafted(config.speculation),
                            .memory = tree_memory_,
                            .token_bound = parts_.tokenizer.vocab_size()};
  if (parts_.mode != Mode::kAuto || !config.offline_tree) return options;
  options.other = drafted(offline_speculation(config));
  if (begins_offline()) std::swap(options.first, *options.other);
  return options;
}

DecodingOptions Generator::decoding_options(const AnswerRequest& request) const {
  const AnswerConfig& config = request.config;
  const bool no_eos = config.text.ignore_eos;
  return {.speculation = speculator_options(config),
          .announcement = {},
          .tokenizer_hash = parts_.tokenizer.content_hash(),
          .choice = config.text.choice,
          .stop_ids = no_eos ? std::vector<TokenId>() : request.prompt.stop_ids,
          .ignore_target_stops = no_eos,
          .service_tier = config.text.service_tier,
          .accepts_server_nodes = parts_.accepts_server_nodes,
          .template_hash = request.prompt.template_hash,
          .replaced_session = last_session_,
          .session_key = random_id(),
          .reconnect = reconnect_options(parts_, config),
          .jitter_seed = std::random_device{}(),
          .accept_other_model = parts_.mode == Mode::kAuto && parts_.failover.other_model,
          .observer = parts_.observer};
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

Finish Generator::run(AnswerSession& session, const AnswerParts& parts,
                      const std::stop_token& stop) {
  const TokenChoice& choice = parts.config.text.choice;
  if (!parts.config.show_provisional) return runner_.run(session, choice, stop);
  ProvisionalTextDecorator decorator(session, parts.session, parts.text);
  return runner_.run(decorator, choice, stop);
}

void Generator::run(const AnswerParts& parts, const std::stop_token& stop, AnswerReport& report) {
  DecodingSession& session = parts.session;
  report.record.mode = parts_.mode;
  FailoverFigures& figures = report.record.failover;
  if (parts_.mode != Mode::kAuto) {
    report.finish = run(session, parts, stop);
    if (!session.session_id().empty()) last_session_ = session.session_id();
    if (parts_.mode == Mode::kOffline) {
      const DecodingStats& stats = session.stats();
      figures.offline_compute = stats.target_compute;
      figures.offline_seconds = (stats.ttft_ms.value_or(0) + stats.decode_ms.value_or(0)) / 1e3;
    }
    return;
  }
  FailoverSetup setup = parts_.failover;
  setup.replaced = last_sessions_;
  FailoverSession failover(std::move(setup), session, memory_);
  report.finish = run(failover, parts, stop);
  figures = failover.figures();
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

// Nothing: the target has no levels.
Result<std::optional<LevelRecord>> Generator::choose_level(const AnswerRequest& request) {
  if (parts_.elastic == nullptr) return std::optional<LevelRecord>();
  const TimePoint now = parts_.clock.now();
  OUTRIDER_ASSIGN_OR_RETURN(
      const LevelChoice choice,
      parts_.elastic->choose(request.config.wish,
                             {.prompt_tokens = std::ssize(request.prompt.ids),
                              .max_tokens = request.config.text.max_tokens,
                              .waited_ms = to_seconds(now - request.came_at.value_or(now)) * 1e3}));
  parts_.elastic->use(choice.level);
  const ElasticLevel& level = parts_.elastic->levels()[choice.level];
  if (!choice.keeps) {
    listener_.on_say({Say::Level::kWarning,
                      "slo: level " + level.name + " answers, and is expected to come too late"});
  }
  if (choice.length_assumed) {
    listener_.on_say({Say::Level::kInfo, "slo: this answer's length is assumed by earlier ones'"});
  }
  return std::optional(LevelRecord{.name = level.name,
                                   .divergence = level.divergence,
                                   .agreement = level.agreement,
                                   .keeps_slo = choice.keeps,
                                   .predicted_ttft_ms = choice.predicted.ttft_ms,
                                   .predicted_tpot_ms = choice.predicted.tpot_ms,
                                   .predicted_time_ms = choice.predicted.time_ms});
}

// Fills in what it took, which is what the next is expected to take.
void Generator::note_level(AnswerRecord& record) {
  const DecodingStats& stats = record.stats;
  record.level->ttft_ms = stats.ttft_ms;
  if (stats.ttft_ms && stats.decode_ms) record.level->time_ms = *stats.ttft_ms + *stats.decode_ms;
  std::optional<double> tpot_ms;
  const auto later = static_cast<double>(record.ids.size()) - 1;
  if (stats.decode_ms && later >= 1) tpot_ms = *stats.decode_ms / later;
  for (std::size_t i = 0; i < parts_.elastic->levels().size(); ++i) {
    if (parts_.elastic->levels()[i].name != record.level->name) continue;
    parts_.elastic->note(i, std::ssize(record.ids), tpot_ms);
  }
}

Result<AnswerReport> Generator::answer(AnswerRequest request, const std::stop_token& stop) {
  const AnswerConfig& config = request.config;
  DecodingOptions decoding = decoding_options(request);
  const std::string how = speculation(config);
  if (how != std::exchange(announced_, how)) decoding.announcement = how;
  OUTRIDER_ASSIGN_OR_RETURN(decoding.speculation.end_position,
                            end_position(request.prompt.ids.size(), config));
  OUTRIDER_ASSIGN_OR_RETURN(StopStrings stops, StopStrings::create(config.text.stop));
  OUTRIDER_ASSIGN_OR_RETURN(std::optional<LevelRecord> level, choose_level(request));
  StreamedText text(parts_.tokenizer, std::move(stops));
  const LinkTraffic before = traffic();
  const StreamWatch streamed(parts_.flash);
  const std::optional<double> joules_before = joules();
  const std::uint64_t overruns_before = parts_.draft != nullptr ? parts_.draft->overruns() : 0;
  decoding.speculation.profiles = read_learnt();
  Drafter& drafter = parts_.draft != nullptr ? parts_.draft->drafter() : no_draft_;
  DecodingSession session(decoding, std::move(request.prompt.ids), drafter, text);

  if (parts_.link != nullptr) parts_.link->name_request(std::move(request.id));

  AnswerReport report;
  run({session, config, text}, stop, report);
  report.assumed = assumed_text(session.opened(), decoding.speculation.profiles);
  learn(session);
  draft_failed_ = draft_failed_ || session.speculation().draft_failed();
  report.stop_string = text.stop_string();
  report.context = session.opened().limits.max_positions;
  AnswerRecord& record = report.record;
  record.text = text.text();
  record.ids = session.answer();
  record.stats = session.stats();
  if (parts_.link != nullptr) {
    record.traffic = TrafficRecord::of(traffic() - before, record.stats.completion_tokens);
  }
  record.streamed = streamed.since();
  if (const auto now = joules(); now && joules_before) record.joules = *now - *joules_before;
  record.bill = bill_of(parts_.prices, ledger_entry(record));
  record.target = session.opened().model_name;
  record.level = std::move(level);
  if (record.level) note_level(record);
  if (parts_.draft != nullptr) {
    record.draft = parts_.draft->info().name;
    record.draft_paced = parts_.draft->is_paced();
    record.draft_overruns = parts_.draft->overruns() - overruns_before;
  }
  record.strategy = name_of(decoding.speculation.first.chosen());
  record.speculation = how;
  if (session.speculation().ended()) {
    record.speculation += ", then OFF because " + *session.speculation().ended();
  }
  return report;
}

}  // namespace outrider
