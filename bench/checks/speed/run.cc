// run: compares strategies over networks and devices, by real programs over a link or by the
// simulation, with real tokens of a real pair (bench/benchmarks.md).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/checks/speed/exit_cost.h"
#include "bench/harness/contenders.h"
#include "bench/harness/grid.h"
#include "bench/harness/grid_plan.h"
#include "bench/harness/real_executor.h"
#include "bench/harness/summary.h"
#include "bench/harness/virtual_executor.h"
#include "bench/probe/tcp_probe.h"
#include "bench/report/cost_report.h"
#include "bench/report/energy_report.h"
#include "bench/report/html/page.h"
#include "bench/report/journal.h"
#include "bench/report/run_progress.h"
#include "bench/report/run_report.h"
#include "bench/scenario/run_flags.h"
#include "bench/scenario/scenario_file.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/json_record.h"
#include "common/base/sha256.h"
#include "common/engine/model/format/model_files.h"
#include "common/serving/prices/prices.h"
#include "outrider_commit.h"

namespace outrider {
namespace {

// The description of a run, for its journal and its report.

std::string hash_of(const std::vector<std::string>& prompts) {
  Sha256 hash;
  for (const std::string& prompt : prompts) {
    hash.update(prompt);
    hash.update("\n");
  }
  return hash.finish_hex();
}

Json model_json(const std::string& path) {
  const auto files = load_model_files(path, {});
  return {{"path", path}, {"fingerprint", files.ok() ? Json((*files)->fingerprint) : Json()}};
}

// The whole model: another file's joules are those of another run.
Json energy_identity(const GridPlan& plan) {
  if (!plan.energy) return {};
  const auto device = [](const DevicePower& power) -> Json {
    return {power.name,          power.idle_w,          power.core_w,
            power.gpu_w,         power.dram_j_per_byte, power.flash_j_per_byte,
            power.up_j_per_byte, power.down_j_per_byte, power.tail_s,
            power.tail_w,        power.cores,           name_of(power.computes)};
  };
  return {
      {"device", device(plan.energy->device)},
      {"server", plan.energy->server ? device(*plan.energy->server) : Json()},
      {"bytes",
       {write_json(plan.energy->draft_step_bytes), write_json(plan.energy->target_pass_bytes)}}};
}
// The settings by which two runs are the same one: the first line of a journal.

Json run_identity(const RunFlags& flags, const GridPlan& plan) {
  Json settings = Json::array();
  for (const GridSetting& setting : plan.settings) {
    settings.push_back(
        {{"name", setting.name},
         {"link", setting.link.description()},
         {"pass", setting.pass.to_string()},
         {"step", setting.step.to_string()},
         {"cloud_step", setting.cloud_step.to_string()},
         {"exit_cost", setting.exit_cost},
         {"synthetic", setting.synthetic ? write_json(*setting.synthetic) : Json()}});
  }
  Json variants = Json::array();
  for (const GridVariant& variant : plan.variants) {
    const int gamma = variant.gamma > 0 ? variant.gamma : plan.gamma;
    const std::string by = variant.outside == nullptr ? "" : ", " + variant.outside->command();
    variants.push_back(variant.name + ", " + std::to_string(gamma) + by);
  }
  return {{"target", plan.target},
          {"draft", plan.draft},
          {"dtype", plan.dtype},
          {"exits", plan.exits},
          {"device", plan.device},
          {"learns", !plan.state_dir.empty()},
          {"server", plan.server},
          {"threads", plan.threads},
          {"clock", name_of(flags.clock)},
          {"link", name_of(flags.link_kind)},
          {"seed", plan.seed},
          {"max_tokens", plan.max_tokens},
          {"repetitions", plan.repetitions},
          {"unverified_by_ms", write_json(plan.unverified_by_ms)},
          {"grammar", plan.grammar},
          {"connected", plan.connected},
          {"energy", energy_identity(plan)},
          {"prompts_sha256", hash_of(plan.prompts)},
          {"settings", std::move(settings)},
          {"variants", std::move(variants)}};
}
// The caller sets made_by and command.

RunDescription describe_run(const RunFlags& flags, const GridExperiment& experiment) {
  const GridPlan& plan = experiment.plan;
  RunDescription run;
  run.exit_cost = experiment.exit_cost;
  run.exit_cost_measured = experiment.exit_cost && !flags.grid.exit_cost;
  run.models = {{"target", model_json(plan.target)}, {"draft", model_json(plan.draft)}};
  run.setup = {{"dtype", plan.dtype},
               {"exits", plan.exits},
               {"device", plan.device},
               {"threads", plan.threads},
               {"learns", !plan.state_dir.empty()},
               {"unverified_by_ms", write_json(plan.unverified_by_ms)},
               {"grammar", plan.grammar},
               {"connected", plan.connected}};
  run.machine = about_machine();
  run.clock = flags.clock;
  run.seed = plan.seed;
  run.prompts = flags.grid.prompts;
  run.prompts_hash = hash_of(plan.prompts);
  run.num_prompts = plan.prompts.size();
  run.repetitions = plan.repetitions;
  run.max_tokens = plan.max_tokens;
  run.limits = flags.limits;
  return run;
}

std::string journal_in(const std::string& folder) {
  return folder + "/requests.jsonl";
}

constexpr double kNeverSlower = 0.97;
constexpr TcpProbePlan kShortProbe = {.round_trips = 10, .bulk = std::chrono::milliseconds(800)};

// Taken from the run that --out resumes; otherwise it is measured.
Result<double> exit_cost_of_run(const RunFlags& flags) {
  double cost = 0;
  const Json begun =
      flags.out.empty() || flags.fresh ? Json() : Journal::header_of(journal_in(flags.out));
  for (const Json& setting : begun.is_object() ? begun.value("settings", Json()) : Json()) {
    cost = std::max(cost, setting.value("exit_cost", 0.0));
  }
  return cost > 0 ? cost : measure_exit_cost(flags.grid, flags.grid.plan.threads);
}

struct RunOptions {
  RunFlags flags;
  CLI::App* command = nullptr;
};

Result<std::unique_ptr<Journal>> open_journal(const RunFlags& flags, const GridPlan& plan) {
  if (flags.out.empty()) return std::unique_ptr<Journal>();
  const std::string path = journal_in(flags.out);
  if (flags.fresh) OUTRIDER_RETURN_IF_ERROR(Journal::remove(path));
  return Journal::open(path, plan, run_identity(flags, plan));
}

Result<std::unique_ptr<AnswerExecutor>> make_executor(const RunFlags& flags, const GridPlan& plan) {
  std::unique_ptr<AnswerExecutor> executor;
  if (flags.clock == RunClock::kReal) {
    executor = std::make_unique<RealExecutor>(plan);
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(executor, VirtualExecutor::create(plan));
  }
  if (flags.corrupted.empty()) return executor;
  return std::unique_ptr<AnswerExecutor>(
      new CorruptingExecutor(std::move(executor), plan, flags.corrupted));
}

// The networks' descriptions, before anything runs on them.
Json measure_links(const RunFlags& flags, const GridPlan& plan) {
  Json links = Json::object();
  if (flags.clock != RunClock::kReal) return links;
  for (const GridSetting& setting : plan.settings) {
    if (setting.network.empty() || links.contains(setting.network)) continue;
    links[setting.network] =
        link_figures(setting.link, {.seed = plan.seed, .kind = setting.link_kind}, kShortProbe);
  }
  return links;
}

constexpr const char* kFast = "mirror";
constexpr const char* kPlain = "ar";

std::string never_slower_at(const GridSetting& setting) {
  return std::string(kFast) + " over " + kPlain + " at " + setting.name;
}

// Bars at the paper's paces, and on networks that speculation is never slower.
std::vector<Bar> bars_of(const GridResult& result, const GridExperiment& experiment) {
  std::vector<Bar> bars = judge(result, experiment.paces);
  std::ranges::move(rival_bars(result, experiment.paces), std::back_inserter(bars));
  for (const GridSetting& setting : experiment.plan.settings) {
    if (setting.network.empty()) continue;
    const auto ratio = speedup_at(result, setting.name, kFast, kPlain);
    if (ratio) bars.push_back({never_slower_at(setting), *ratio, kNeverSlower});
  }
  return bars;
}

// On networks: what is missing of the profile's impairments, and of answers.
void hold_evidence(const RunFlags& flags, const GridPlan& plan, const GridResult& result,
                   CheckOutcome& outcome) {
  Json all = Json::array();
  std::string missing;
  for (const GridSetting& setting : plan.settings) {
    if (setting.network.empty() || !speedup_at(result, setting.name, kFast, kPlain)) continue;
    const Claim claim{never_slower_at(setting), setting, kFast, kPlain};
    for (std::string& what : missing_evidence(result, claim, flags.least_answers)) {
      missing += (missing.empty() ? "" : "; ") + what;
      all.push_back(std::move(what));
    }
  }
  if (!missing.empty()) outcome.mark_inconclusive(missing);
  outcome.figures["missing_evidence"] = std::move(all);
}

// The share that a robot which acts by a deadline needs.
constexpr double kWholeByDeadline = 0.95;

void add_deadline_bars(std::span<const CellReport> cells, std::vector<Bar>& bars) {
  for (const CellReport& cell : cells) {
    if (!cell.by_deadline || cell.variant->name != kFast || cell.requests == 0) continue;
    const std::size_t whole = cell.by_deadline->whole();
    const auto share = bootstrap(cell.requests, [&](std::span<const std::size_t> drawn) {
      const auto of_whole = std::ranges::count_if(drawn, [&](std::size_t i) { return i < whole; });
      return static_cast<double>(of_whole) / static_cast<double>(drawn.size());
    });
    bars.push_back({std::string(kFast) + " at " + cell.setting->name +
                        ": share of answers that are whole by the deadline, verified or not",
                    share.value_or(Estimate{}), kWholeByDeadline});
  }
}

RunReport report_of(const RunFlags& flags, const RunDescription& run,
                    const GridExperiment& experiment, const GridResult& result) {
  const GridPlan& plan = experiment.plan;
  RunReport report{.run = run};
  report.cells = cell_reports(plan, result, flags.limits);
  report.bars = bars_of(result, experiment);
  add_deadline_bars(report.cells, report.bars);
  report.valid = result.mismatches == 0;
  for (const FinishedAnswer& answer : result.finished) {
    if (answer.job.prompt == 0 && answer.job.repetition == 0) report.examples.push_back(answer);
  }
  for (const GridSetting& setting : plan.settings) report.setting_names.push_back(setting.name);
  for (const GridVariant& variant : plan.variants) report.variant_names.push_back(variant.name);
  return report;
}

// Writes --html anew while the run goes on, so that it can be looked at, and a run that is
// interrupted has one.
class GrowingPage final {
 public:
  static constexpr Duration kBetween = kPageRefresh;

  // All must outlive this object.
  GrowingPage(const RunFlags& flags, const RunDescription& run, const GridExperiment& experiment,
              const AnswerExecutor& executor, Clock& clock)
      : flags_(flags), run_(run), experiment_(experiment), executor_(executor), clock_(clock) {
    std::error_code error;
    is_new_ = !std::filesystem::exists(std::filesystem::symlink_status(flags.html, error));
  }

  void add(const FinishedAnswer& answer) {
    if (flags_.html.empty()) return;
    finished_.push_back(answer);
    if (written_at_ && clock_.now() - *written_at_ < kBetween) return;
    // A file that cannot be written is reported at the end, after the others are written.
    std::error_code error;
    const auto kind = std::filesystem::status(flags_.html, error).type();
    const bool is_stream = kind != std::filesystem::file_type::regular &&
                           kind != std::filesystem::file_type::not_found;
    if (is_stream) return;  // it gets the whole page, once
    static_cast<void>(write_output(flags_.html, kReportPage, report_page(report())));
    written_at_ = clock_.now();
  }

  // Makes room for the whole one. What was there before, a link or a page with its mode, stays.
  void remove() const {
    if (written_at_ && is_new_) std::remove(flags_.html.c_str());
  }

 private:
  RunReport report() const {
    const GridPlan& plan = experiment_.plan;
    GridResult so_far;
    so_far.finished = finished_;
    for (std::size_t i = 0; i < plan.settings.size(); ++i) {
      so_far.link_kinds.push_back(executor_.link_kind(i));
    }
    fill_cells(plan, so_far);
    RunReport report = report_of(flags_, run_, experiment_, so_far);
    report.so_far = AnswersSoFar{finished_.size(), jobs_of(plan, executor_.order()).size()};
    report.inconclusive = fmt::format("it goes on, or was interrupted, and has {} of {} answers",
                                      report.so_far->done, report.so_far->all);
    return report;
  }

  const RunFlags& flags_;
  const RunDescription& run_;
  const GridExperiment& experiment_;
  const AnswerExecutor& executor_;
  Clock& clock_;
  std::vector<FinishedAnswer> finished_;
  std::optional<TimePoint> written_at_;
  bool is_new_ = false;  // the page, before the run
};

// Writes the journal, if there is one, and the page, and shows progress.
class RunListener final : public GridListener {
 public:
  RunListener(Journal* journal, RunProgress& progress, GrowingPage& page)
      : journal_(journal), progress_(progress), page_(page) {}

  std::optional<FinishedAnswer> known(const AnswerJob& job) override {
    if (journal_ == nullptr) return std::nullopt;
    const auto found = journal_->known().find(job);
    if (found == journal_->known().end()) return std::nullopt;
    progress_.skip();
    page_.add(found->second);
    return found->second;
  }
  Status on_finished(const FinishedAnswer& answer) override {
    OUTRIDER_RETURN_IF_ERROR(progress_.on_finished(answer));
    page_.add(answer);
    return journal_ == nullptr ? Status() : journal_->add(answer);
  }

 private:
  Journal* const journal_;  // null: none
  RunProgress& progress_;
  GrowingPage& page_;
};

Result<std::optional<Prices>> wanted_prices(const RunFlags& flags) {
  if (flags.price_file.empty()) return std::optional<Prices>();
  Result<Prices> prices = read_prices(flags.price_file);
  if (!prices.ok()) return invalid_argument("--price-file: " + prices.status().message());
  return std::optional(*std::move(prices));
}

// A file that cannot be written fails the outcome. The other files are written all the same, and
// the measurements are printed.
void write_reports(const RunFlags& flags, const RunReport& report, CheckOutcome& outcome) {
  Json not_written = Json::array();
  const auto write = [&](const std::string& path, const OutputKind& kind, const std::string& text) {
    const Status status = write_output(path, kind, text);
    std::fprintf(stderr, "%s\n", status.ok() ? path.c_str() : status.message().c_str());
    if (!status.ok()) not_written.push_back(path);
  };
  if (!flags.html.empty()) write(flags.html, kReportPage, report_page(report));
  if (!flags.out.empty()) {
    const std::string base = flags.out + "/report";
    write(base + ".json", kReportJson, with_schema_first(report_json(report), kReportSchema));
    write(base + ".csv", kReportCsv, report_csv(report));
    write(base + ".md", kReportMarkdown, report_markdown(report));
  }
  outcome.passed = outcome.passed && not_written.empty();
  outcome.figures["not_written"] = std::move(not_written);
}

void hold_failures(const GridResult& result, CheckOutcome& outcome) {
  outcome.figures["failed"] = result.failures;
  if (result.failures == 0) return;
  std::fprintf(stderr, "%zu of %zu requests failed\n", result.failures, result.finished.size());
  if (result.failures == result.finished.size()) outcome.passed = false;
}

// Makes the folder, and says whether the reports may be written: not only after hours.
Status check_reports(const RunFlags& flags) {
  std::error_code error;
  if (!flags.out.empty()) std::filesystem::create_directories(flags.out, error);
  if (error) return invalid_argument("--out " + flags.out + ": " + error.message());
  if (!flags.html.empty()) OUTRIDER_RETURN_IF_ERROR(OutputFile::check(flags.html, kReportPage));
  if (flags.out.empty()) return {};
  const std::string base = flags.out + "/report";
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(base + ".json", kReportJson));
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(base + ".csv", kReportCsv));
  return OutputFile::check(base + ".md", kReportMarkdown);
}

Result<CheckOutcome> run_strategies(const RunOptions& options) {
  const RunFlags& flags = options.flags;
  if (!flags.scenario.empty()) {
    OUTRIDER_RETURN_IF_ERROR(apply_scenario(flags.scenario, *options.command));
  }
  OUTRIDER_RETURN_IF_ERROR(check_reports(flags));
  OUTRIDER_ASSIGN_OR_RETURN(GridExperiment experiment, make_run(flags));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<Prices> prices, wanted_prices(flags));
  experiment.plan.traces = !flags.html.empty();
  const GridPlan& plan = experiment.plan;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<AnswerExecutor> executor,
                            make_executor(flags, plan));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Journal> journal, open_journal(flags, plan));
  RunDescription description = describe_run(flags, experiment);
  description.made_by = std::string("outrider-bench, commit ") + OUTRIDER_COMMIT;
  description.command = options.command->config_to_str(true, false);
  description.measured_links = measure_links(flags, plan);
  SystemClock clock;
  GridResult result;
  {
    RunProgress progress(plan, clock, isatty(STDERR_FILENO) != 0);
    GrowingPage page(flags, description, experiment, *executor, clock);
    RunListener listener(journal.get(), progress, page);
    progress.announce();
    OUTRIDER_ASSIGN_OR_RETURN(result, run_grid(plan, *executor, listener));
    page.remove();
  }
  BestOfGroups best = keep_best(plan, std::move(result));
  experiment.plan = std::move(best.plan);
  result = std::move(best.result);
  CheckOutcome outcome;
  outcome.passed = true;
  RunReport report = report_of(flags, description, experiment, result);
  report.prices = prices;
  report.energy = plan.energy;
  if (prices) price_cells(*prices, report.cells);
  outcome.figures = {{"clock", name_of(flags.clock)},
                     {"summary", summary_json(result, experiment.paces)},
                     {"experiment", experiment_json(flags.grid, experiment)},
                     {"cells", cells_json(result)}};
  outcome.hold(report.bars);
  hold_evidence(flags, plan, result, outcome);
  hold_run(result, outcome);
  hold_failures(result, outcome);
  report.inconclusive = outcome.inconclusive;
  outcome.json_wanted = flags.json;
  if (!flags.json) {
    const bool at_paces = flags.networks.empty();  // where the paper has figures to compare with
    std::fputs(
        (at_paces ? table(result, experiment.paces) + energy_markdown(report.energy, report.cells)
                  : report_markdown(report))
            .c_str(),
        stdout);
  }
  write_reports(flags, report, outcome);
  return outcome;
}

}  // namespace

void add_run_check(CheckList& checks) {
  auto options = std::make_shared<RunOptions>();
  RunFlags& flags = options->flags;
  flags.grid.paces.clear();
  flags.grid.prompts = kPromptSets;
  flags.grid.measure_exit_cost = [&flags] { return exit_cost_of_run(flags); };
  flags.grid.pass_times = {PassTimes::kMeasured, PassTimes::kPrinted};
  options->command = checks.add("run", "Compare strategies over networks and devices",
                                [options] { return run_strategies(*options); });
  add_run_flags(*options->command, flags);
  add_model_flags(*options->command, flags.grid);
  add_pace_flags(*options->command, flags.grid);
}

}  // namespace outrider
