// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/virtual_executor.h"

#include <algorithm>
#include <cmath>

#include "bench/edges/bench_edge.h"
#include "bench/harness/answer_energy.h"
#include "bench/harness/delivery.h"
#include "bench/harness/law.h"
#include "bench/paces/paces.h"
#include "common/decoding/exits/find_exits.h"
#include "common/engine/constraint/constraint_compiler.h"
#include "common/serving/conversation/streamed_text.h"
#include "edge_client/generation/local_draft.h"
#include "edge_client/metrics/timeline_recorder.h"
#include "edge_client/report/answer_report.h"
#include "sim/synthetic_pair.h"

namespace outrider {
namespace {

LinkTraffic traffic_of(const VirtualAnswer& answer) {
  return {.payload_up = answer.bytes_up,
          .payload_down = answer.bytes_down,
          .framed_up = answer.bytes_up,
          .framed_down = answer.bytes_down};
}

}  // namespace

AnswerRecord record_of(VirtualAnswer answer, const StrategyChoice& strategy,
                       const std::string& name, const std::string& draft) {
  AnswerReport report;
  report.finish = answer.finish;
  AnswerRecord& record = report.record;
  record.traffic = TrafficRecord::of(traffic_of(answer), answer.stats.completion_tokens);
  record.ids = std::move(answer.ids);
  record.stats = std::move(answer.stats);
  record.target = answer.target;
  record.strategy = name_of(strategy);
  record.draft_paced = true;
  const bool drafts = strategy != Strategy::kAr;
  if (drafts) record.draft = draft;
  record.speculation = drafts ? "ON (" + name + ")" : "OFF because --strategy ar was chosen";
  if (answer.speculation_ended) {
    record.speculation += ", then OFF because " + *answer.speculation_ended;
  }
  return record_of(report);
}

namespace {

Status check_plan(const GridPlan& plan) {
  if (!plan.server.empty()) {
    return invalid_argument("--clock virtual: --server " + plan.server +
                            " answers in real time. Remedy: --clock real");
  }
  if (plan.device != "cpu") {
    return invalid_argument("--clock virtual computes here, not on --device " + plan.device +
                            ". Remedy: --clock real");
  }
  for (const GridSetting& setting : plan.settings) {
    if (!setting.pass.empty() && !setting.step.empty()) continue;
    return invalid_argument("--clock virtual: '" + setting.name +
                            "' is unpaced, and work without a pace takes no virtual time. Remedy: "
                            "name a --pace, or --clock real");
  }
  for (const GridVariant& variant : plan.variants) {
    if (variant.edge_flags.empty()) continue;
    return invalid_argument("--clock virtual: variant " + variant.name +
                            " has flags of outrider-edge. Remedy: --clock real");
  }
  return {};
}

// When an answer begins in virtual time.
constexpr TimePoint kBegin{};

// FSD's algorithm 2 knows no calibration.
ExitScore exit_score_of(const GridVariant& variant) {
  return variant.strategy == Strategy::kFsd ? ExitScore::kMaxSoftmax : ExitScore::kCalibrated;
}

// A server that has answered before knows its pass times, as in real time after the warm-up.
PassCostBook costs_at(const PaceCurve& pass, double exit_cost, bool exits, bool drafts) {
  PassCostBook costs;
  if (pass.empty()) return costs;
  std::vector<std::size_t> known = {1, 2, 3, 5, 9};
  if (drafts) known.insert(known.end(), {16, 32, 64});
  for (const std::size_t rows : known) {
    const double ms = pass.ms(static_cast<std::int64_t>(rows));
    costs.add(rows, false, from_ms(ms));
    if (exits) costs.add(rows, true, from_ms(ms * exit_cost));
  }
  return costs;
}

// How long the devices of a variant take: a pass of its target, a step of its edge's draft.
struct VariantPaces {
  PaceCurve pass;
  PaceCurve step;
};

// A block draft's step takes as long as any other's, and is told in equal parts, one for each guess
// of the round.
VariantPaces paces_of(const GridSetting& setting, const GridVariant& variant, int gamma) {
  switch (variant.place) {
    case DraftPlace::kEdge:
      break;
    case DraftPlace::kCloud:
      return {setting.pass, setting.cloud_step.scaled(variant.drafts_blocks ? 1.0 / gamma : 1)};
    case DraftPlace::kAlone:
      return {setting.step, setting.step};
    case DraftPlace::kStrongEdge:
      return {strong_edge_pass(), strong_edge_step()};
  }
  return {setting.pass, setting.step};
}

// The models of a setting and a variant, or synthetic ones.
class Cast final {
 public:
  Cast(const GridPlan& plan, const GridSetting& setting, const GridVariant& variant, Model& target,
       Model& draft, ExitHeads* exits)
      : target_(&target), draft_(&draft), exits_(exits) {
    if (setting.synthetic) {
      const SyntheticAcceptance& said = *setting.synthetic;
      target_ = &made_target_.emplace("synthetic target", 1, target.info());
      draft_ = &made_draft_.emplace("synthetic draft", acceptance_of_tau(said.tau, said.gamma),
                                    target.info());
      exits_ = nullptr;
    }
    if (has_own_text(variant)) {
      target_ = draft_;
      exits_ = nullptr;
    } else if (variant.without_exits) {
      exits_ = nullptr;
    } else if (const auto curve = curve_of(plan, setting)) {
      exits_ = &made_exits_.emplace(*curve, setting.target_layers);
      target_ = &shown_.emplace(*target_, setting.target_layers);
    }
  }

  Model& target() { return *target_; }
  Model& draft() { return *draft_; }
  ExitHeads* exits() { return exits_; }  // null: none

 private:
  static std::optional<ExitCurve> curve_of(const GridPlan& plan, const GridSetting& setting) {
    ExitCurve curve = figure7_curve(plan.exit_scale.value_or(kFittedScale));
    if (setting.synthetic && setting.synthetic->miss_rate) {
      curve.arrival = ExitCurve::Arrival{*setting.synthetic->miss_rate,
                                         setting.synthetic->mean_exit / setting.target_layers};
      return curve;
    }
    return plan.exits == kSyntheticExits ? std::optional(curve) : std::nullopt;
  }

  std::optional<SyntheticModel> made_target_, made_draft_;
  std::optional<RankedTokensModel> shown_;
  std::optional<SyntheticExits> made_exits_;
  Model* target_;
  Model* draft_;
  ExitHeads* exits_;
};

}  // namespace

Result<std::unique_ptr<VirtualExecutor>> VirtualExecutor::create(const GridPlan& plan) {
  OUTRIDER_RETURN_IF_ERROR(check_plan(plan));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> target,
                            load_bench_model(plan.target, plan.dtype, plan.threads));
  const std::string wanted = plan.exits == kSyntheticExits ? "none" : plan.exits;
  OUTRIDER_ASSIGN_OR_RETURN(FoundExits exits,
                            find_exits({.model = plan.target, .exits = wanted}, target->info()));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> draft,
                            load_bench_model(plan.draft, "auto", plan.threads));
  OUTRIDER_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(plan.target));
  std::vector<EncodedPrompt> prompts;
  for (const std::string& prompt : plan.prompts) {
    OUTRIDER_ASSIGN_OR_RETURN(EncodedPrompt encoded,
                              encode_prompt(tokenizer, chat_source(tokenizer), prompt, ""));
    prompts.push_back(std::move(encoded));
  }
  AnswerConstraint form;
  if (!plan.grammar.empty()) {
    ConstraintCompiler compiler([&] { return grammar_vocabulary(tokenizer); });
    OUTRIDER_ASSIGN_OR_RETURN(form, compiler.compile({ConstraintKind::kGrammar, plan.grammar}));
  }
  return std::unique_ptr<VirtualExecutor>(
      new VirtualExecutor(plan, {std::move(target), std::move(draft), std::move(exits.heads),
                                 std::move(tokenizer), std::move(prompts), std::move(form)}));
}

VirtualExecutor::VirtualExecutor(const GridPlan& plan, Parts parts)
    : plan_(plan),
      energy_(plan.energy),
      target_(std::move(parts.target)),
      draft_(std::move(parts.draft)),
      exits_(std::move(parts.exits)),
      tokenizer_(std::move(parts.tokenizer)),
      prompts_(std::move(parts.prompts)),
      form_(std::move(parts.form)) {
  if (!energy_) return;
  const auto bytes_of = [](const MemoizedModel& model) {
    return static_cast<double>(model.info().weight_bytes);
  };
  energy_->draft_step_bytes = energy_->draft_step_bytes.value_or(bytes_of(draft_));
  energy_->target_pass_bytes = energy_->target_pass_bytes.value_or(bytes_of(target_));
}

void VirtualExecutor::use_prompt(std::size_t prompt) {
  if (prompt_ == prompt) return;
  prompt_ = prompt;
  target_.forget();
  draft_.forget();
}

// Sets an answer up as the generator does.
SimEdgeSetup VirtualExecutor::setup_of(const GridVariant& variant, std::size_t prompt,
                                       const SamplingParams& sampling) const {
  const EncodedPrompt& encoded = prompts_[prompt];
  SimEdgeSetup setup;
  setup.prompt = encoded.ids;
  auto& decoding = setup.decoding;
  SpeculationOptions& speculated = decoding.speculation.first;
  speculated.strategy = variant.strategy;
  if (variant.client_queue) speculated.queue = *variant.client_queue;
  if (variant.fan_out) speculated.fan_out = *variant.fan_out;
  speculated.gamma = gamma_of(variant);
  decoding.tokenizer_hash = tokenizer_.content_hash();
  decoding.speculation.token_bound = tokenizer_.vocab_size();
  decoding.choice.sampling = sampling;
  decoding.choice.seed = plan_.seed;
  decoding.choice.settings.constraint = form_;
  decoding.stop_ids = encoded.stop_ids;
  decoding.speculation.end_position = static_cast<Position>(encoded.ids.size()) + plan_.max_tokens;
  setup.drafter =
      drafter_options(draft_.info(), {.max_positions = target_.info().max_positions,
                                      .workers = variant.workers.value_or(kDraftWorkers)});
  if (gives_unverified(variant)) {
    setup.due = from_ms(*plan_.unverified_by_ms) - DeadlineDecorator::kDelivery;
  }
  return setup;
}

Result<VirtualAnswer> VirtualExecutor::decode(const GridVariant& variant,
                                              const GridSetting& setting, std::size_t prompt,
                                              std::shared_ptr<LinkWire> wire,
                                              SessionObserver* observer, AnswerText* text) {
  use_prompt(prompt);
  Cast cast(plan_, setting, variant, target_, draft_, exits_.get());
  SchedulerOptions scheduling;
  scheduling.tokenizer_hash = tokenizer_.content_hash();
  scheduling.exits = cast.exits();
  scheduling.exit_score = exit_score_of(variant);
  const VariantPaces paces = paces_of(setting, variant, gamma_of(variant));
  scheduling.pass_costs = costs_at(paces.pass, setting.exit_cost, cast.exits() != nullptr,
                                   variant.server_drafts != DraftSource::kNone);
  if (variant.server_queue) scheduling.report_queue = *variant.server_queue;
  const bool by_model = uses_model(variant.server_drafts);
  scheduling.draft_source = variant.server_drafts;
  scheduling.drafts_in_passes = variant.server_draft_alone;
  DraftExperience& experience = draft_experiences_[{setting.name, variant.name}];
  if (by_model) {
    scheduling.draft_model = &cast.draft();
    scheduling.draft_experience = experience;
  }
  const VirtualDevices devices{
      .target = cast.target(),
      .scheduling = scheduling,
      .pass = paces.pass,
      .exit_cost = setting.exit_cost,
      .draft = cast.draft(),
      .step = paces.step,
      .server_step = setting.cloud_step,
      .link = {.up = {},
               .down = {},
               .connect_trips = wire != nullptr ? connect_trips(setting) : 0,
               .wire = std::move(wire)}};
  SimEdgeSetup setup = setup_of(variant, prompt, setting.sampling);
  setup.decoding.observer = observer;
  Result<VirtualAnswer> answer = answer_in_virtual_time(devices, std::move(setup), text);
  if (variant.outside != nullptr) OUTRIDER_RETURN_IF_ERROR(variant.outside->status());
  if (answer.ok() && by_model) experience = answer->draft_experience;
  return answer;
}

Result<std::vector<TokenId>> VirtualExecutor::reference(std::size_t prompt,
                                                        const GridSetting& setting) {
  GridSetting plain;
  plain.sampling = setting.sampling;
  plain.synthetic = setting.synthetic;
  OUTRIDER_ASSIGN_OR_RETURN(VirtualAnswer answer, decode(variant_of(Strategy::kAr), plain, prompt,
                                                         nullptr, nullptr, nullptr));
  return std::move(answer.ids);
}

Result<EdgeAnswer> VirtualExecutor::answer(const AnswerJob& job) {
  const GridSetting& setting = plan_.settings[job.setting];
  const GridVariant& variant = plan_.variants[job.variant];
  const Duration offset = link_offset(plan_, job);
  const std::uint64_t seed = link_seed(plan_, job);
  std::shared_ptr<LinkWire> wire;
  if (variant.place == DraftPlace::kEdge) {
    wire = std::make_shared<LinkWire>(setting.link, offset, seed);
  }
  const bool traced = is_traced(plan_, job);
  Timeline timeline;
  TimelineRecorder recorder(timeline);
  StreamedText text(tokenizer_, {}, prompts_[job.prompt].shown_ids);
  OUTRIDER_ASSIGN_OR_RETURN(VirtualAnswer answer, decode(variant, setting, job.prompt, wire,
                                                         traced ? &recorder : nullptr, &text));
  const std::optional<DeadlineDecorator::Given> given = answer.given;
  const Activity activity = std::move(answer.activity);
  AnswerRecord at_user =
      record_of(std::move(answer), variant.strategy, variant.name, draft_.info().name);
  at_user.text = text.text();
  if (gives_unverified(variant)) {
    at_user.unverified = UnverifiedRecord::of(given, kBegin);
    at_user.unverified->settle(at_user.ending, at_user.text);
  }
  if (variant.place == DraftPlace::kCloud) {
    OUTRIDER_RETURN_IF_ERROR(deliver(setting.link, connect_trips(setting), offset, seed, at_user));
  }
  const bool on_edge =
      variant.place == DraftPlace::kAlone || variant.place == DraftPlace::kStrongEdge;
  if (on_edge) at_user.traffic = TrafficRecord{};
  OUTRIDER_ASSIGN_OR_RETURN(EdgeAnswer edge, edge_answer_of(std::move(at_user)));
  if (traced) edge.trace = timeline.chrome_trace();
  edge.figures.wire_up = static_cast<double>(edge.record.traffic->bytes.framed_up);
  edge.figures.wire_down = static_cast<double>(edge.record.traffic->bytes.framed_down);
  if (wire != nullptr) edge.link = wire->counts();
  if (energy_) {
    add_energy(energy_of(*energy_, variant.place, activity, edge.record), edge);
  }
  return edge;
}

}  // namespace outrider
