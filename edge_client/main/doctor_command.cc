// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json.h"
#include "common/cli/program.h"
#include "common/conversation/conversation.h"
#include "edge_client/doctor/diagnosis.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/main/commands.h"
#include "edge_client/main/console.h"
#include "edge_client/verifiers/link_speed.h"

namespace outrider {
namespace {

constexpr std::int64_t kTrialTokens = 64;  // of an answer, unless -n says otherwise
constexpr std::size_t kScreening = 2;      // prompts on which all candidates are tried
// Prompts that decide on the best of them, at least: fewer of a kind look alike by chance, and
// would end the judging before the other kind was seen.
constexpr std::size_t kJudging = 12;
// More are taken while the interval is wide, for so long.
constexpr Duration kJudgeFor = std::chrono::seconds(180);

constexpr std::array kCandidates = {
    DraftingWay{Strategy::kSd, 3},     DraftingWay{Strategy::kSd, 6},
    DraftingWay{Strategy::kFsd, 4},    DraftingWay{Strategy::kMirror, 4},
    DraftingWay{Strategy::kMirror, 8},
};

// Where the user gives none. They are of one kind each: a pair does not draft all texts alike.
constexpr std::array kPrompts = {
    "In view: silver bottle 20 degrees left at 2.1 m. Task: find the silver bottle.",
    "Explain in a few sentences why the sky is blue.",
    "In view: red chair ahead at 1.0 m, white door right at 3.2 m. Task: go to the white door.",
    "Write a short story about a lighthouse keeper and a storm.",
    "In view: blue box 35 degrees right at 0.8 m. Task: pick up the blue box.",
    "List five things to check before a long walk, and say why.",
    "In view: wooden table ahead at 2.4 m, green cup on it. Task: bring the green cup.",
    "What is the difference between a river and a canal?",
    "In view: brown sofa left at 1.9 m, grey lamp ahead at 3.0 m. Task: go to the grey lamp.",
    "Write a polite letter that asks for a later date of delivery.",
    "In view: yellow ball 10 degrees left at 1.5 m. Task: find the yellow ball.",
    "How does a refrigerator keep food cold?",
    "In view: glass door ahead at 0.6 m, black bag right at 2.2 m. Task: wait at the glass door.",
    "Give three reasons why trees lose their leaves in autumn.",
};
static_assert(kPrompts.size() >= kScreening + kJudging, "each judges once");

// Answers are not shown, what goes wrong is.
class QuietListener final : public AnswerListener {
 public:
  explicit QuietListener(Console& console) : console_(console) {}
  void on_emit(const Emit& /*emit*/) override {}
  void on_say(const Say& say) override {
    if (say.level != Say::Level::kInfo) console_.on_say(say);
  }
  void on_prefill(const PrefillProgress& /*progress*/) override {}

 private:
  Console& console_;
};

// How far the server's clock is ahead of this device's, give or take.
struct ClockOffset {
  Duration ahead{0};
  Duration uncertain{0};
};

// What the server said of itself.
class ServerNotes final : public SessionObserver {
 public:
  void on_opened(const Opened& opened, Duration took, bool /*reconnected*/) override {
    opened_ = opened;
    const auto here =
        std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch());
    if (opened.wall_clock == Duration{0} || (clock_ && clock_->uncertain <= took / 2)) return;
    clock_ = ClockOffset{opened.wall_clock - (here - took / 2), took / 2};
  }
  const Opened& opened() const { return opened_; }
  // Of the opening that took least; nothing if the server does not send it.
  const std::optional<ClockOffset>& clock() const { return clock_; }

 private:
  Opened opened_;
  std::optional<ClockOffset> clock_;
};

class Doctor final {
 public:
  Doctor(const GenerationConfig& config, RemoteVerifier& server, Generator& generator,
         Console& console, std::vector<EncodedPrompt> prompts, const std::stop_token& stop)
      : config_(config),
        server_(server),
        generator_(generator),
        console_(console),
        prompts_(std::move(prompts)),
        stop_(stop) {}

  Result<Advice> examine() {
    OUTRIDER_RETURN_IF_ERROR(answer(0, {Strategy::kMirror, 4}).status());  // warm-up
    answers_.clear();
    round_trips_ms_.clear();
    OUTRIDER_ASSIGN_OR_RETURN(const DraftingWay best, screen());
    std::vector<Trial> trials;
    const TimePoint until = std::chrono::steady_clock::now() + kJudgeFor;
    for (std::size_t i = kScreening; i < kScreening + kJudging || wants_more(i, trials, until);
         ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(const std::optional<Trial> trial, compare(i, best));
      if (trial) trials.push_back(*trial);
    }
    if (trials.size() < 2) {
      return failed_precondition(
          "fewer than two answers were longer than one verdict: nothing to compare. Remedy: "
          "prompts (-p) with longer answers, or a larger -n");
    }
    return advise(best, trials);
  }

  Result<Surroundings> surroundings() const {
    Surroundings found = surroundings_of(answers_, round_trips_ms_);
    OUTRIDER_ASSIGN_OR_RETURN(const RemoteOptions server, remote_options(config_));
    Result<LinkSpeed> speed = measure_link_speed(server, stop_);
    if (!speed.ok() && speed.status().code() != StatusCode::kUnimplemented) return speed.status();
    if (speed.ok()) found.speed = *speed;
    return found;
  }

 private:
  // Whether the prompt comes for the first time and would add something.
  bool wants_more(std::size_t prompt, const std::vector<Trial>& trials, TimePoint until) const {
    return prompt < prompts_.size() && std::chrono::steady_clock::now() < until &&
           (trials.size() < 2 || !is_settled(speed_up(trials)));
  }

  // Time of its tokens, ms; nothing if the answer came at once. Over a connection of its own, as
  // each answer of `outrider-edge run` has: a draft gets ahead while it is made.
  Result<std::optional<double>> answer(std::size_t prompt, const DraftingWay& way) {
    AnswerConfig config = config_.answer;
    config.speculation.strategy = way.strategy;
    config.speculation.gamma = way.gamma;
    if (config.text.max_tokens < 0) config.text.max_tokens = kTrialTokens;
    server_.disconnect();
    OUTRIDER_ASSIGN_OR_RETURN(
        AnswerReport report,
        generator_.answer({.prompt = prompts_[prompt % prompts_.size()], .config = config}, stop_));
    const Ending ending = report.finish.ending;
    if (ending == Ending::kCancelled) return cancelled("interrupted");
    if (ending == Ending::kLinkLost || ending == Ending::kFailed) return report.finish.status;
    for (const Duration time : report.record.stats.round_trips)
      round_trips_ms_.push_back(to_ms(time));
    answers_.push_back(record_of(report));
    const std::optional<double> tpot_ms = answers_.back().stats.tpot_ms;
    console_.print_error_stream(
        fmt::format("prompt {}: {} gamma {}: {}\n", prompt + 1, name_of(way.strategy), way.gamma,
                    tpot_ms ? fmt::format("{:.4g} ms a token", *tpot_ms) : "came at once"));
    if (!tpot_ms) return std::optional<double>();
    return std::optional(*tpot_ms * static_cast<double>(answers_.back().ids.size()));
  }

  // `way` first: the server then keeps the prompt's cache, and answers the second time at once.
  // That makes no difference to plain decoding; a draft gets ahead while the server reads the
  // prompt.
  Result<std::optional<Trial>> compare(std::size_t prompt, const DraftingWay& way) {
    OUTRIDER_ASSIGN_OR_RETURN(const auto drafted, answer(prompt, way));
    const std::vector<TokenId> ids = answers_.back().ids;
    OUTRIDER_ASSIGN_OR_RETURN(const auto plain, answer(prompt, {Strategy::kAr, way.gamma}));
    if (answers_.back().ids != ids) {
      return data_loss(name_of(way) +
                       " gave another text than plain decoding: a defect of these "
                       "programs. Remedy: --strategy ar, and report it");
    }
    if (!drafted || !plain || *drafted <= 0 || *plain <= 0) return std::optional<Trial>();
    return std::optional(Trial{.plain_ms = *plain, .candidate_ms = *drafted});
  }

  Result<DraftingWay> screen() {
    std::array<double, kCandidates.size()> sums{};
    for (std::size_t prompt = 0; prompt < kScreening; ++prompt) {
      for (std::size_t i = 0; i < kCandidates.size(); ++i) {
        OUTRIDER_ASSIGN_OR_RETURN(const auto ms, answer(prompt, kCandidates[i]));
        sums[i] += ms.value_or(0);
      }
    }
    return kCandidates[static_cast<std::size_t>(std::ranges::min_element(sums) - sums.begin())];
  }

  const GenerationConfig& config_;
  RemoteVerifier& server_;
  Generator& generator_;
  Console& console_;
  const std::vector<EncodedPrompt> prompts_;
  const std::stop_token stop_;
  std::vector<AnswerRecord> answers_;
  std::vector<double> round_trips_ms_;
};

Result<std::vector<EncodedPrompt>> encode_prompts(const Tokenizer& tokenizer,
                                                  const ChatSource& source,
                                                  const DoctorOptions& options,
                                                  const std::string& chat_template) {
  std::vector<std::string> texts = options.prompts;
  if (texts.empty()) texts.assign(kPrompts.begin(), kPrompts.end());
  std::vector<EncodedPrompt> prompts;
  for (const std::string& text : texts) {
    OUTRIDER_ASSIGN_OR_RETURN(EncodedPrompt prompt,
                              encode_prompt(tokenizer, source, text, chat_template));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

std::string server_text(const ServerNotes& notes) {
  const Opened& opened = notes.opened();
  std::string text = fmt::format(
      "server      {}, version {}, arithmetic {}, fingerprint {}, {} early exits\n",
      without_controls(opened.model_name),
      opened.server_version.empty() ? "not known" : without_controls(opened.server_version),
      without_controls(opened.arithmetic_id), without_controls(opened.fingerprint),
      opened.exits.size());
  if (const std::optional<ClockOffset>& clock = notes.clock()) {
    text += fmt::format("clock       the server's is {:.1f} ms ahead, give or take {:.1f} ms\n",
                        to_ms(clock->ahead), to_ms(clock->uncertain));
  }
  return text;
}

Json clock_json(const std::optional<ClockOffset>& clock) {
  if (!clock) return {};
  return {{"ahead_ms", to_ms(clock->ahead)}, {"uncertain_ms", to_ms(clock->uncertain)}};
}

}  // namespace

Result<int> doctor_command(const AnswerOptions& options, const DoctorOptions& doctor_options,
                           Interrupts& interrupts) {
  OUTRIDER_ASSIGN_OR_RETURN(const GenerationConfig config, generation_config(options));
  if (config.model.empty()) {
    return invalid_argument("doctor judges a draft: --model is missing. Remedy: name the draft");
  }
  if (!config.target.empty()) {
    return invalid_argument(
        "doctor judges a link to a server: --target has none. Remedy: leave it out");
  }
  std::stop_source stop;
  Console console({.color_accept = false, .show_provisional = false, .on_broken_pipe = [&] {
                     stop.request_stop();
                   }});
  QuietListener listener(console);
  ServerNotes notes;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSetup> setup, EdgeSetup::load(config));
  OUTRIDER_ASSIGN_OR_RETURN(const ChatSource chat, setup->chat().wait());
  OUTRIDER_ASSIGN_OR_RETURN(
      std::vector<EncodedPrompt> prompts,
      encode_prompts(setup->tokenizer(), chat, doctor_options, setup->chat().name()));
  const GeneratorParts parts = setup->parts(&notes);
  Generator generator(parts, listener);
  Doctor doctor(config, *parts.link, generator, console, std::move(prompts), stop.get_token());
  interrupts.on_interrupt([&] { stop.request_stop(); });
  const Result<Advice> advice = doctor.examine();
  const Result<Surroundings> found =
      advice.ok() ? doctor.surroundings() : Result<Surroundings>(advice.status());
  interrupts.on_interrupt(nullptr);
  OUTRIDER_RETURN_IF_ERROR(console.output());
  if (stop.stop_requested()) return kExitInterrupted;
  OUTRIDER_RETURN_IF_ERROR(found.status());
  console.print_error_stream(server_text(notes) + to_text(*found));
  if (!options.json) {
    console.print_line(verdict_of(*advice));
    OUTRIDER_RETURN_IF_ERROR(console.output());
    return kExitOk;
  }
  Json json = {{"version", Program::version()},
               {"server", config.server},
               {"server_version", notes.opened().server_version},
               {"clock", clock_json(notes.clock())},
               {"target", notes.opened().model_name},
               {"arithmetic", notes.opened().arithmetic_id},
               {"fingerprint", notes.opened().fingerprint},
               {"found", to_json(*found)},
               {"advice", to_json(*advice)}};
  console.print_line(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  OUTRIDER_RETURN_IF_ERROR(console.output());
  return kExitOk;
}

}  // namespace outrider
