// exits: what early exits add to a pass. Two sessions of one scheduler decode by turns, the same
// number of rows a pass; one wants exits, and its reports leave while the pass goes on.
// SPDX-License-Identifier: Apache-2.0
#include "bench/checks/speed/exits.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <utility>

#include "bench/checks/checks.h"
#include "common/exits/adapter_heads.h"
#include "common/model/cpu/cpu_model.h"
#include "common/verify/scheduler.h"

namespace outrider {
namespace {

constexpr double kBar = 1.10;
constexpr Position kPrompt = 96;

// Random ones at the asked depths: weights do not change the cost.
ExitAdapters random_exits(const ExitsOptions& options, const ModelInfo& model) {
  std::vector<std::int32_t> layers;
  for (const double depth : options.depths) {
    layers.push_back(std::clamp(static_cast<std::int32_t>(std::lround(depth * model.num_layers)), 1,
                                model.num_layers - 1));
  }
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  ExitAdapters random = random_adapters(model, layers, std::max(1, model.hidden_size / 10), 1);
  if (options.shortlist > 0 && options.shortlist < model.vocab_size) {
    random.shortlist.resize(static_cast<std::size_t>(options.shortlist));
    std::iota(random.shortlist.begin(), random.shortlist.end(), 0);
  }
  return random;
}

struct ExitsToTime {
  std::unique_ptr<ExitHeads> heads;
  std::size_t tokens_considered = 0;
  bool are_random = false;
};

// The model's own chosen exits or, where it has none and --adapters asks for none, random ones.
Result<ExitsToTime> exits_to_time(const ExitsOptions& options, const ModelFiles& files,
                                  const ModelInfo& model) {
  const bool asked_for = !options.adapters.empty();
  Result<ExitAdapters> adapters =
      load_adapters(asked_for ? options.adapters : folder_of_model(options.model));
  const bool are_random = adapters.status().code() == StatusCode::kNotFound && !asked_for;
  if (are_random) {
    std::fprintf(stderr, "exits: %s has no exits; these are random ones\n", options.model.c_str());
    adapters = random_exits(options, model);
  } else if (adapters.ok()) {
    OUTRIDER_RETURN_IF_ERROR(check_target(*adapters, model));
    adapters = select_exits(*std::move(adapters), "auto");
  }
  if (!adapters.ok()) return adapters.status();
  if (adapters->exits.empty()) return failed_precondition("the adapters have chosen no exit");
  const std::size_t listed = adapters->shortlist.empty()
                                 ? static_cast<std::size_t>(adapters->vocab_size)
                                 : adapters->shortlist.size();
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ExitHeads> heads,
                            make_adapter_heads(*std::move(adapters), files));
  return ExitsToTime{std::move(heads), listed, are_random};
}

// One session that drafts chains of tokens, mostly wrong ones, as a draft of a random model would.
class ChainSession final {
 public:
  ChainSession(Scheduler& scheduler, StreamId stream, bool wants_exits, const ExitsOptions& options)
      : scheduler_(scheduler), stream_(stream), wants_exits_(wants_exits), options_(options) {
    open();
  }

  // Milliseconds of one pass.
  double pass() {
    if (scheduler_.session(stream_) == nullptr) {  // the model has ended its answer
      stream_ += 2;
      open();
    }
    send_chain();
    return turn();
  }

  std::uint32_t reports() const { return reports_; }

 private:
  // Opens the stream and runs its prefill, while no other stream wants the device.
  void open() {
    Open open;
    for (Position i = 0; i < kPrompt; ++i) open.prefix.push_back(static_cast<TokenId>(i % 50));
    open.end_position = kPrompt + Position{options_.rows + 1} * (options_.passes + 2);
    open.policy.wants_exits = wants_exits_;
    acked_reports_ = 0;
    channel_ = std::make_shared<ExitReportChannel>(ReportQueue::kPriority, clock_,
                                                   [this](const ExitReport& report) {
                                                     acked_reports_ = report.seq;
                                                     ++reports_;
                                                   });
    scheduler_.connect(stream_, std::to_string(stream_), clock_.now(), channel_);
    receive({.body = std::move(open)});
    turn();
  }

  double turn() {
    OUTRIDER_CHECK(scheduler_.start(clock_.now()) && scheduler_.last_served() == stream_);
    const TimePoint start = clock_.now();
    scheduler_.compute();
    const double ms = to_ms(clock_.now() - start);
    scheduler_.finish(clock_.now());
    scheduler_.take_events();
    return ms;
  }

  void send_chain() {
    const VerifySession& session = *scheduler_.session(stream_);
    const Position end = session.tree().end();
    Grow grow{session.tree().ids().next_id(), end, {}};
    for (int i = 0; i + 1 < options_.rows; ++i) {
      const auto token = static_cast<TokenId>((end * 31 + Position{i} * 7) % 997);
      grow.nodes.push_back({token, i == 0 ? 0u : 1u, 255});
    }
    receive({end, acked_reports_, std::move(grow)});
  }

  void receive(const EdgeMessage& message) {
    channel_->acknowledge(message);
    scheduler_.receive(stream_, message, clock_.now());
  }

  Scheduler& scheduler_;
  StreamId stream_;  // odd ids for one session, even ones for the other
  const bool wants_exits_;
  const ExitsOptions& options_;
  SystemClock clock_;
  std::shared_ptr<ExitReportChannel> channel_;  // of the open stream
  std::uint32_t acked_reports_ = 0;             // of the open stream
  std::uint32_t reports_ = 0;                   // of all
};

}  // namespace

Result<CheckOutcome> measure_exits(const ExitsOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(auto files, load_model_files(options.model, {}));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<Model> model,
      make_cpu_model(files, {.dtype = options.dtype, .threads = options.threads, .progress = {}}));
  OUTRIDER_ASSIGN_OR_RETURN(const ExitsToTime exits, exits_to_time(options, *files, model->info()));
  SchedulerOptions scheduling;
  scheduling.max_positions = kPrompt + Position{options.rows + 1} * (options.passes + 3);
  scheduling.exits = exits.heads.get();
  Scheduler scheduler(*model, scheduling);
  ChainSession with(scheduler, 1, true, options);
  std::vector<double> with_ms, without_ms;
  ChainSession without(scheduler, 2, false, options);
  for (int i = 0; i < options.passes; ++i) {
    with_ms.push_back(with.pass());
    without_ms.push_back(without.pass());
  }
  const auto ratio = ratio_of_medians(without_ms, with_ms);
  if (!ratio) return failed_precondition("the passes took no time");
  const Bar bar{"pass_ratio", *ratio, kBar, Bar::Side::kAtMost};
  CheckOutcome outcome;
  outcome.passed = true;
  const auto layers = exits.heads->layers();
  outcome.figures = {{"pass_ratio", ratio->value},
                     {"with_ms", quantile(with_ms, 0.5)},
                     {"without_ms", quantile(without_ms, 0.5)},
                     {"rows", options.rows},
                     {"exits", std::vector<std::int32_t>(layers.begin(), layers.end())},
                     {"layers", model->info().num_layers},
                     {"exits_are", exits.are_random ? "random" : "the model's"},
                     {"tokens_considered", exits.tokens_considered},
                     {"reports", with.reports()},
                     {"dtype", model->info().dtype},
                     {"threads", options.threads}};
  outcome.hold({&bar, 1});
  return outcome;
}

void add_exits_check(CheckList& checks) {
  auto options = std::make_shared<ExitsOptions>();
  CLI::App* command = checks.add("exits", "Pass time with early exits against without",
                                 [options] { return measure_exits(*options); });
  command->add_option("--model", options->model, "Model directory or GGUF file")->required();
  command->add_option("--adapters", options->adapters,
                      "Directory of its exit adapters, if not the model's");
  command
      ->add_option("--depths", options->depths,
                   "For a model without adapters: random ones at these depths, 0 to 1")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--shortlist", options->shortlist,
                      "For a model without adapters: tokens that exits consider; 0: all");
  command->add_option("--dtype", options->dtype, "auto, f32, bf16, int8 or int4");
  command->add_option("--threads", options->threads, "Compute threads")->check(CLI::Range(1, 256));
  command->add_option("--rows", options->rows, "Rows of a pass")->check(CLI::Range(1, 33));
  command->add_option("--passes", options->passes, "Passes of each kind")
      ->check(CLI::Range(1, 10000));
}

}  // namespace outrider
