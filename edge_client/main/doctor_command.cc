// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <array>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json.h"
#include "common/engine/text/pipeline/utf8.h"
#include "common/serving/cli/program.h"
#include "edge_client/doctor/device_doctor.h"
#include "edge_client/doctor/diagnosis.h"
#include "edge_client/doctor/link_doctor.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/main/commands.h"
#include "edge_client/main/console.h"
#include "edge_client/report/device_energy.h"
#include "edge_client/report/jetson.h"

namespace outrider {
namespace {

// The prompts where the user gives none. Each is of another kind, as a pair does not draft all
// texts alike.
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
    "In view: red cup 15 degrees right at 1.2 m, white shelf ahead. Task: bring the red cup.",
    "Describe how bread is made, step by step.",
};

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

// The findings of both doctors.
struct Diagnosis {
  std::string verdict;  // one sentence
  Json advice;
  std::string text;  // for people
  Json json;         // except for version and advice
  bool knows_energy = false;
};

// The inputs of both doctors.
struct DoctorContext {
  Console& console;
  QuietListener& listener;
  std::vector<std::string> prompts;
  std::stop_token stop;

  std::function<void(const std::string&)> on_line() const {
    return [this](const std::string& line) { console.print_error_stream(line); };
  }
};

// A server that is not Outrider's, by what its requests take.
std::string stock_text(const StockCosts& costs) {
  return fmt::format(
      "requests    a plain token takes {:.3g} ms, a request that judges {} drafted tokens {:.3g} "
      "ms: as long as {:.3g} plain tokens\n",
      costs.plain_ms, StockCosts::kJudged, costs.judge_ms, costs.tokens_to_pay());
}

// Nothing: it may pay, so that trial answers have to show it.
std::optional<Diagnosis> diagnose_requests(const StockCosts& costs) {
  constexpr std::size_t kMaxTokens = StockCosts::kJudged + 1;
  if (costs.tokens_to_pay() < kMaxTokens) return std::nullopt;
  return Diagnosis{
      .verdict = fmt::format(
          "For this server: do not draft. A request that judges {} drafted tokens brings at most "
          "{}, and takes as long as {:.3g} that the server writes alone. Remedy: --strategy ar.",
          StockCosts::kJudged, kMaxTokens, costs.tokens_to_pay()),
      .advice = {{"draft", false}, {"decided", true}, {"strategy", name_of(Strategy::kAr)}},
      .text = {},
      .json = Json::object()};
}

Result<Diagnosis> diagnose_link(const GenerationConfig& config, const DoctorContext& context) {
  ServerNotes notes;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSetup> setup, EdgeSetup::load(config));
  OUTRIDER_ASSIGN_OR_RETURN(TrialAnswers trials, TrialAnswers::of(*setup, context.prompts,
                                                                  context.on_line(), context.stop));
  std::string requests;
  Json costs_json;
  if (StockVerifier* const stock = setup->stock()) {
    OUTRIDER_ASSIGN_OR_RETURN(const StockCosts costs,
                              stock->measure(trials.ids_of(0), context.stop));
    requests = stock_text(costs);
    costs_json = {{"plain_ms", costs.plain_ms},
                  {"judge_ms", costs.judge_ms},
                  {"tokens_to_pay", costs.tokens_to_pay()}};
    if (std::optional<Diagnosis> found = diagnose_requests(costs)) {
      found->text = requests;
      found->json = {{"server", config.server}, {"requests", costs_json}};
      return *std::move(found);
    }
  }
  LinkDoctor doctor(config, *setup, notes, context.listener, trials);
  OUTRIDER_ASSIGN_OR_RETURN(const Advice advice, doctor.examine());
  OUTRIDER_ASSIGN_OR_RETURN(const Surroundings found, doctor.surroundings());
  return Diagnosis{.verdict = verdict_of(advice),
                   .advice = to_json(advice),
                   .text = server_text(notes) + requests + to_text(found),
                   .json = {{"server", config.server},
                            {"server_version", notes.opened().server_version},
                            {"server_drafts", notes.server_drafts()},
                            {"clock", clock_json(notes.clock())},
                            {"target", notes.opened().model_name},
                            {"arithmetic", notes.opened().arithmetic_id},
                            {"fingerprint", notes.opened().fingerprint},
                            {"requests", std::move(costs_json)},
                            {"found", to_json(found)}},
                   .knows_energy = found.joules.has_value()};
}

Result<Diagnosis> diagnose_device(const GenerationConfig& config, const DoctorContext& context) {
  DeviceDoctor doctor(config, context.prompts, context.listener, context.on_line(), context.stop);
  OUTRIDER_ASSIGN_OR_RETURN(const Advice advice, doctor.examine());
  Json drafters = Json::array();
  for (const TriedDrafter& figures : doctor.figures()) drafters.push_back(to_json(figures));
  return Diagnosis{.verdict = verdict_of(advice),
                   .advice = to_json(advice),
                   .text = to_text(doctor.figures()),
                   .json = {{"target", config.target}, {"drafters", std::move(drafters)}},
                   .knows_energy = doctor.figures().front().found.joules.has_value()};
}

}  // namespace

Result<int> doctor_command(const AnswerOptions& options, const DoctorOptions& doctor_options,
                           Interrupts& interrupts) {
  OUTRIDER_ASSIGN_OR_RETURN(GenerationConfig config, generation_config(options));
  // Every trial of a prompt must give the same text.
  config.answer.text.draws_seed = false;
  config.generation_config = GenerationConfigUse::kNone;
  if (mode_of(config) == Mode::kAuto) {
    return invalid_argument(
        "doctor examines one target: the server's or this device's. Remedy: leave --server or "
        "--target out");
  }
  if (!wants_draft(config)) {
    return invalid_argument(
        "doctor tries what drafts on this device, which --draft-source none, --strategy ar and "
        "--draft-at server rule out. Remedy: leave them out");
  }
  std::stop_source stop;
  Console console({.color_accept = false, .show_provisional = false, .on_broken_pipe = [&] {
                     stop.request_stop();
                   }});
  QuietListener listener(console);
  for (const std::string& prompt : doctor_options.prompts) {
    OUTRIDER_RETURN_IF_ERROR(check_utf8(prompt, "-p"));
  }
  DoctorContext context{console, listener, doctor_options.prompts, stop.get_token()};
  if (context.prompts.empty()) context.prompts.assign(kPrompts.begin(), kPrompts.end());
  interrupts.on_interrupt([&] { stop.request_stop(); });
  const Result<Diagnosis> found = mode_of(config) == Mode::kOnline
                                      ? diagnose_link(config, context)
                                      : diagnose_device(config, context);
  interrupts.on_interrupt(nullptr);
  OUTRIDER_RETURN_IF_ERROR(console.output());
  if (stop.stop_requested()) return kExitInterrupted;
  OUTRIDER_RETURN_IF_ERROR(found.status());
  const std::optional<JetsonFigures> device = read_jetson();  // as the answers left it
  const std::string energy =
      found->knows_energy ? "" : "energy      not told: " + why_no_energy() + "\n";
  console.print_error_stream(found->text + energy + (device ? to_text(*device) : ""));
  if (options.json) {
    Json json = found->json;
    json["version"] = Program::version();
    json["advice"] = found->advice;
    if (device) json["device"] = to_json(*device);
    console.print_line(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    console.print_line(found->verdict);
  }
  OUTRIDER_RETURN_IF_ERROR(console.output());
  return kExitOk;
}

}  // namespace outrider
