// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/generator.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <random>
#include <utility>

#include "common/base/random_id.h"
#include "common/engine/model/kv_pages.h"
#include "common/serving/conversation/answer_length.h"
#include "common/serving/conversation/bad_words.h"
#include "common/serving/conversation/streamed_text.h"
#include "edge_client/report/answer_ledger.h"
#include "edge_client/report/answer_report.h"
#include "edge_client/session/opening.h"

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

// Equal for prompts that can share pages: those that begin alike.
std::string hash_of_first_page(std::span<const TokenId> prompt) {
  constexpr std::size_t kPage = KvPages::kRows;
  return prefix_hash(prompt.first(std::min(prompt.size(), kPage)));
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

// Watches the reads and waits of one answer's passes, where its target is streamed. The model
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

// Records an answer's streams and verdicts.
class RecordObserver final : public SessionObserver {
 public:
  explicit RecordObserver(AnswerRecording recording) : recording_(std::move(recording)) {}

  void on_opened(const Opened& opened, Duration /*took*/, bool /*reconnected*/) override {
    recording_.on_opened(opened);
  }
  void on_verdict(const VerdictRecord& record, TimePoint /*now*/) override {
    recording_.on_verdict(record.verdict,
                          record.answer_tokens - std::exchange(tokens_, record.answer_tokens));
  }
  RecordLines finish(Ending ending) { return recording_.finish(name_of(ending)); }

 private:
  AnswerRecording recording_;
  std::size_t tokens_ = 0;  // of the answer
};

// Nothing: the answer is not recorded.
std::optional<RecordObserver> begin_record(const Recorder* recorder, const AnswerRequest& request,
                                           const DecodingOptions& decoding) {
  if (recorder == nullptr || (!recorder->has_file() && !request.record)) return std::nullopt;
  const std::vector<TokenId>& prompt = request.prompt.ids;
  const Open open = make_open(
      decoding, {},
      {.prefix = prompt, .end_position = decoding.speculation.end_position, .policy = {}});
  return RecordObserver(recorder->begin(record_terms(open, prompt)));
}

// Reads the device's power whenever an answer's text grows, so that its energy is as fine as its
// text, and tells the listener behind it everything.
class SampledListener final : public AnswerListener {
 public:
  SampledListener(AnswerListener& listener, DeviceEnergy& energy)
      : listener_(listener), energy_(energy) {}

  void on_emit(const Emit& emit) override {
    listener_.on_emit(emit);
    energy_.sample();
  }
  void on_say(const Say& say) override { listener_.on_say(say); }
  void on_provisional(const Provisional& guess) override { listener_.on_provisional(guess); }
  void on_prefill(const PrefillProgress& progress) override { listener_.on_prefill(progress); }
  void on_connect(const Connect& connect) override { listener_.on_connect(connect); }
  void on_event(const SessionEvent& event) override { listener_.on_event(event); }

 private:
  AnswerListener& listener_;
  DeviceEnergy& energy_;
};

// While a target computes here; 0: not known.
double computing_watts(const GeneratorParts& parts) {
  const DevicePower* const power = parts.power;
  return power != nullptr ? power->idle_w + power->computing_w(parts.threads) : 0;
}

}  // namespace

Generator::Generator(const GeneratorParts& parts, AnswerListener& listener)
    : parts_(parts),
      listener_(listener),
      memory_(parts.failover.options.failback_after),
      sampled_(parts.energy ? std::make_unique<SampledListener>(listener, *parts.energy) : nullptr),
      runner_(parts.verifiers, parts.draft != nullptr ? &parts.draft->worker() : nullptr,
              parts.clock, sampled_ ? *sampled_ : listener) {}

std::string Generator::cannot_draft() const {
  if (parts_.draft == nullptr) return "nothing drafts on this device";
  if (draft_failed_) return "the draft model failed before";
  if (parts_.elastic == nullptr || parts_.elastic->draft_is_smaller(level_)) return "";
  return "level " + parts_.elastic->levels()[level_].name + " answers, and the draft " +
         parts_.draft->info().name + " is no smaller";
}

std::string Generator::speculation(const AnswerConfig& config) const {
  const SpeculationOptions& chosen = config.speculation;
  if (chosen.strategy == Strategy::kAr) return "OFF because --strategy ar was chosen";
  if (const std::string why = cannot_draft(); !why.empty()) return "OFF because " + why;
  return "ON (" + std::string(name_of(chosen.chosen())) + ", draft " + parts_.draft->info().name +
         ", " + round_text(chosen) + offline_text(parts_, config) + ")";
}

bool Generator::begins_offline() const {
  return memory_.route == Route::kOffline || memory_.forbidden;
}

// A generator that cannot draft decodes plainly.
SpeculationOptions Generator::drafted(SpeculationOptions wanted) const {
  if (!cannot_draft().empty()) wanted.strategy = Strategy::kAr;
  return wanted;
}

// The options for answers that this device's own target verifies.
SpeculationOptions Generator::drafted_here(SpeculationOptions wanted) const {
  wanted.takes_turns = parts_.shares_cores;
  return drafted(wanted);
}

SpeculatorOptions Generator::speculator_options(const AnswerConfig& config) const {
  const bool here = parts_.mode == Mode::kOffline;
  SpeculatorOptions options{
      .first = here ? drafted_here(config.speculation) : drafted(config.speculation),
      .memory = tree_memory_,
      .token_bound = parts_.tokenizer.vocab_size()};
  if (next_level_ && !parts_.elastic->draft_is_smaller(*next_level_)) {
    options.other = options.first;
    options.other->strategy = Strategy::kAr;
    return options;
  }
  if (parts_.mode != Mode::kAuto || (!config.offline_tree && !parts_.shares_cores)) return options;
  options.other = drafted_here(offline_speculation(config));
  if (begins_offline()) std::swap(options.first, *options.other);
  return options;
}

DecodingOptions Generator::decoding_options(const AnswerRequest& request) const {
  const AnswerConfig& config = request.config;
  return {
      .speculation = speculator_options(config),
      .announcement = {},
      .tokenizer_hash = parts_.tokenizer.content_hash(),
      .choice = config.text.choice,
      .stop_ids = all_stop_ids(config.text, request.prompt.stop_ids),
      .top_logprobs = config.text.top_logprobs,
      .prompt_logprobs = config.text.prompt_logprobs,
      .ignore_target_stops = config.text.ignore_eos,
      .service_tier = config.text.service_tier,
      .accepts_server_nodes = parts_.accepts_server_nodes && request.config.accepts_server_nodes,
      .level = parts_.mode == Mode::kOffline ? std::string() : config.wish.level,
      .template_hash = request.prompt.template_hash,
      .replaced_session = last_session_,
      .session_key = random_id(),
      .reconnect = reconnect_options(parts_, config),
      .jitter_seed = std::random_device{}(),
      .accept_other_model = (parts_.elastic != nullptr && parts_.mode == Mode::kOffline) ||
                            (parts_.mode == Mode::kAuto && parts_.failover.other_model),
      .observer = parts_.observer};
}

Result<ChoiceSettings> Generator::choice_settings(const TextOptions& text) const {
  ChoiceSettings settings = text.choice.settings;
  OUTRIDER_ASSIGN_OR_RETURN(auto words, bad_word_tokens(parts_.tokenizer, text.bad_words));
  std::ranges::move(words, std::back_inserter(settings.bad_words));
  OUTRIDER_RETURN_IF_ERROR(validate(settings, parts_.tokenizer.vocab_size()));
  AnswerConstraint& constraint = settings.constraint;
  if (!constraint.asks() || constraint.compiled != nullptr) return settings;
  if (parts_.constraints == nullptr) return unimplemented("answers cannot be held to a form here");
  OUTRIDER_ASSIGN_OR_RETURN(constraint, parts_.constraints->compile(constraint.spec));
  return settings;
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

// With what stands before the session, where that is asked for.
void Generator::run(AnswerSession& session, const AnswerParts& parts, const std::stop_token& stop,
                    AnswerReport& report) {
  const AnswerConfig& config = parts.config;
  AnswerSession* outer = &session;
  std::optional<LevelSwitchDecorator> levels;
  if (parts.level && parts.level->may_change()) {
    outer = &levels.emplace(parts.session, level_plan(parts));
  }
  std::optional<DeadlineDecorator> deadline;
  if (config.wish.slo.unverified) {
    const Duration time = from_ms(*config.wish.slo.time_ms);
    const TimePoint due = parts.came_at + time - DeadlineDecorator::kDelivery;
    outer = &deadline.emplace(*outer, parts.session, parts.drafter, parts.text, due);
  }
  std::optional<ProvisionalTextDecorator> provisional;
  if (config.show_provisional) outer = &provisional.emplace(*outer, parts.session, parts.text);
  report.finish = runner_.run(*outer, parts.session.choice(), stop);
  switches_ = levels ? levels->switches() : std::vector<LevelSwitch>();
  if (deadline) report.record.unverified = UnverifiedRecord::of(deadline->given(), parts.came_at);
}

void Generator::run(const AnswerParts& parts, const std::stop_token& stop, AnswerReport& report) {
  DecodingSession& session = parts.session;
  report.record.mode = parts_.mode;
  FailoverFigures& figures = report.record.failover;
  if (parts_.mode != Mode::kAuto) {
    run(session, parts, stop, report);
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
  if (parts_.elastic != nullptr) {
    const ModelInfo& level = parts_.elastic->model(level_).info();
    setup.fingerprint = level.fingerprint;
    setup.arithmetic_id = level.arithmetic_id;
  }
  FailoverSession failover(std::move(setup), session, memory_);
  run(failover, parts, stop, report);
  figures = failover.figures();
  last_sessions_ = failover.session_ids();
}

PairProfiles Generator::read_learnt() {
  if (parts_.learning == nullptr) return {};
  KeptLearning kept = parts_.learning->store.read(parts_.learning->side);
  if (!kept.ignored.empty() && !std::exchange(has_warned_, true)) {
    listener_.on_say({Say::Level::kWarning, "learning: begins anew because " + kept.ignored});
  }
  return std::move(kept.pairs);
}

void Generator::learn(const DecodingSession& session) {
  const std::string& target = session.speculation().profiled_target();
  if (parts_.learning == nullptr || target.empty()) return;
  std::optional<PairProfile> learnt = session.speculation().profile();
  if (!learnt) return;
  if (parts_.engine != nullptr) {
    const std::optional<std::array<double, 3>> weights = parts_.engine->stats().edge_weights;
    if (weights) learnt->edge_weights.emplace(weights->begin(), weights->end());
  }
  const Status kept = parts_.learning->store.write(parts_.learning->side, target, *learnt);
  if (kept.ok() || std::exchange(cannot_learn_, true)) return;
  listener_.on_say({Say::Level::kWarning, "learning: OFF because " + kept.message()});
}

Result<LevelChoice> Generator::find_level(const AnswerRequest& request) const {
  const TimePoint now = parts_.clock.now();
  return parts_.elastic->book().choose(request.config.wish,
                                       {.prompt_tokens = std::ssize(request.prompt.ids),
                                        .max_tokens = request.config.text.max_tokens,
                                        .waited_ms = to_ms(now - request.came_at.value_or(now)),
                                        .watts = computing_watts(parts_)});
}

Status Generator::check_level(const AnswerRequest& request) const {
  return parts_.elastic == nullptr ? Status() : find_level(request).status();
}

// Nothing: the target has no levels.
Result<std::optional<LevelChoice>> Generator::choose_level(const AnswerRequest& request) {
  if (parts_.elastic == nullptr) return std::optional<LevelChoice>();
  OUTRIDER_ASSIGN_OR_RETURN(const LevelChoice choice, find_level(request));
  parts_.elastic->use(choice.level);
  level_ = choice.level;
  next_level_.reset();
  // Beside a server it was named, and the times of answers are not this device's alone.
  if (parts_.mode != Mode::kOffline) return std::optional<LevelChoice>();
  for (const LevelSwitch& next : choice.then) {
    if (next.level > level_) next_level_ = std::max(next.level, next_level_.value_or(0));
  }
  if (choice.may_switch) next_level_ = level_ + 1;
  if (!choice.keeps) {
    listener_.on_say({Say::Level::kWarning, "slo: level " +
                                                parts_.elastic->levels()[choice.level].name +
                                                " answers, and is expected to come too late"});
  }
  if (choice.length_assumed) {
    listener_.on_say({Say::Level::kInfo, "slo: this answer's length is assumed by earlier ones'"});
  }
  return std::optional(choice);
}

LevelSwitchDecorator::Plan Generator::level_plan(const AnswerParts& parts) const {
  LevelSwitchDecorator::Plan plan{.track = {*parts.level, parts_.elastic->book().profile()}};
  if (!parts.level->may_switch) return plan;
  const TimePoint due = parts.came_at + from_ms(*parts.level->time_limit_ms);
  const auto prompt = std::ssize(parts.session.text());
  plan.review = [this, due, prompt, choice = *parts.level](const LevelSwitchDecorator::Pace& pace) {
    return level_to_go_on_with(parts_.elastic->book().profile(), choice.level,
                               {.text_tokens = prompt + pace.answered,
                                .tokens_left = choice.expected_tokens - pace.answered,
                                .time_left_ms = to_ms(due - pace.now),
                                .tpot_ms = pace.tpot_ms,
                                .least_quality = choice.least_quality});
  };
  return plan;
}

void Generator::note_level(const LevelChoice& choice, AnswerRecord& record) {
  const DecodingStats& stats = record.stats;
  LevelRecord& level = record.level.emplace();
  level.ttft_ms = stats.ttft_ms;
  if (stats.ttft_ms && stats.decode_ms) level.time_ms = *stats.ttft_ms + *stats.decode_ms;
  const auto prompt = static_cast<std::int64_t>(stats.prompt_tokens);
  const auto cached = static_cast<std::int64_t>(stats.cached_tokens.value_or(0));
  parts_.elastic->book().note(
      choice, switches_,
      {.read = std::max<std::int64_t>(prompt - cached, 0), .said = std::ssize(record.ids)}, level);
}

void Generator::keep_record(RecordLines record, AnswerReport& report) {
  if (const Status kept = parts_.recorder->append(record); !kept.ok()) {
    listener_.on_say({Say::Level::kWarning, "record: OFF because " + kept.message()});
  }
  report.record_lines = std::move(record.lines);
}

Result<AnswerReport> Generator::answer(AnswerRequest request, const std::stop_token& stop) {
  settle_seed(request.config.text);
  const AnswerConfig& config = request.config;
  const TimePoint came_at = request.came_at.value_or(parts_.clock.now());
  OUTRIDER_RETURN_IF_ERROR(check_slo(config.wish.slo));
  if (config.wish.slo.unverified && parts_.draft == nullptr) {
    return invalid_argument(
        "slo.unverified is what the draft expects of an answer, and nothing drafts here. Remedy: "
        "--draft-level or --model");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const Position end, end_position(request.prompt.ids.size(), config));
  OUTRIDER_ASSIGN_OR_RETURN(StopStrings stops, StopStrings::create(config.text.stop));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<LevelChoice> level, choose_level(request));
  DecodingOptions decoding = decoding_options(request);
  decoding.speculation.end_position = end;
  OUTRIDER_ASSIGN_OR_RETURN(decoding.choice.settings, choice_settings(config.text));
  const std::string how = speculation(config);
  if (how != std::exchange(announced_, how)) decoding.announcement = how;
  StreamedText text(parts_.tokenizer, std::move(stops), std::move(request.prompt.shown_ids));
  const LinkTraffic before = traffic();
  const StreamWatch streamed(parts_.flash);
  const std::optional<double> joules_before = joules();
  const std::uint64_t overruns_before = parts_.draft != nullptr ? parts_.draft->overruns() : 0;
  decoding.speculation.profiles = read_learnt();
  const bool can_run = parts_.draft != nullptr && !draft_failed_;
  Drafter& drafter = can_run ? parts_.draft->drafter() : no_draft_;
  if (parts_.link != nullptr) {
    parts_.link->name_request(std::move(request.id), std::move(request.trace),
                              hash_of_first_page(request.prompt.ids));
  }
  std::optional<RecordObserver> recording = begin_record(parts_.recorder, request, decoding);
  decoding.wants_digests = recording.has_value();
  decoding.recorder = recording ? &*recording : nullptr;
  DecodingSession session(decoding, std::move(request.prompt.ids), drafter, text);
  AnswerReport report;
  run({session, config, drafter, text, came_at, level}, stop, report);
  report.assumed = assumed_text(session.opened(), decoding.speculation.profiles);
  if (recording) keep_record(recording->finish(report.finish.ending), report);
  learn(session);
  draft_failed_ = draft_failed_ || session.speculation().draft_failed();
  report.stop_string = text.stop_string();
  report.context = session.opened().limits.max_positions;
  AnswerRecord& record = report.record;
  record.text = text.text();
  if (record.unverified) record.unverified->settle(report.finish.ending, record.text);
  record.ids = session.answer();
  if (config.text.top_logprobs) record.logprobs = logprob_records(record.ids, session.logprobs());
  record.stats = session.stats();
  if (parts_.link != nullptr) {
    record.traffic = TrafficRecord::of(traffic() - before, record.stats.completion_tokens);
  }
  record.streamed = streamed.since();
  if (const auto now = joules(); now && joules_before) record.joules = *now - *joules_before;
  record.bill = bill_of(parts_.prices, ledger_entry(record));
  record.seed = told_seed(config.text.choice);
  record.target = session.opened().model_name;
  record.arithmetic = session.opened().arithmetic_id;
  if (level) note_level(*level, record);
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
