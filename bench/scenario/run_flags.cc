// SPDX-License-Identifier: Apache-2.0
#include "bench/scenario/run_flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "bench/harness/contenders.h"
#include "bench/scenario/scenario_file.h"
#include "common/base/address.h"
#include "common/serving/cli/choice.h"
#include "common/serving/cli/program.h"
#include "emulation/path/link_spec.h"

namespace outrider {
namespace {

constexpr std::size_t kMaxValues = 1000;

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// first-last or first-last+step; nothing if the text has another form.
struct Range {
  double first = 0;
  double last = 0;
  double step = 1;
};

std::optional<Range> range_of(std::string_view text) {
  const std::size_t dash = text.find('-', 1);
  if (dash == std::string_view::npos || text[dash - 1] == 'e') return std::nullopt;
  const std::size_t plus = text.find('+', dash);
  const auto first = number(text.substr(0, dash));
  const auto last =
      number(text.substr(dash + 1, plus == std::string_view::npos ? plus : plus - dash - 1));
  const auto step = plus == std::string_view::npos ? 1.0 : number(text.substr(plus + 1));
  if (!first || !last || !step) return std::nullopt;
  return Range{*first, *last, *step};
}

Status add_range(const Range& range, const std::string& where, std::vector<double>& values) {
  if (range.last < range.first) return invalid_argument(where + ": the range descends");
  if (range.step <= 0) return invalid_argument(where + ": the step must be above 0");
  const double count = std::floor((range.last - range.first) / range.step + 1e-9) + 1;
  if (count > static_cast<double>(kMaxValues)) {
    return invalid_argument(where + ": more than " + std::to_string(kMaxValues) + " values");
  }
  for (int i = 0; i < static_cast<int>(count); ++i) values.push_back(range.first + i * range.step);
  return {};
}

Status check(const std::vector<double>& values, const std::string& where,
             const ValueBounds& bounds) {
  if (values.size() > kMaxValues) {
    return invalid_argument(where + ": more than " + std::to_string(kMaxValues) + " values");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < bounds.least || values[i] > bounds.most) {
      return invalid_argument(fmt::format("{}: {:.9g} is not from {:.9g} to {:.9g}", where,
                                          values[i], bounds.least, bounds.most));
    }
    if (std::find(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i), values[i]) !=
        values.begin() + static_cast<std::ptrdiff_t>(i)) {
      return invalid_argument(fmt::format("{}: {:.9g} stands twice", where, values[i]));
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  while (true) {
    const std::size_t comma = text.find(',', begin);
    std::string word = text.substr(begin, comma == std::string::npos ? comma : comma - begin);
    word.erase(0, word.find_first_not_of(' '));
    word.erase(word.find_last_not_of(' ') + 1);
    words.push_back(std::move(word));
    if (comma == std::string::npos) return words;
    begin = comma + 1;
  }
}

Result<std::vector<double>> parse_values(const std::string& text, const std::string& flag,
                                         const ValueBounds& bounds) {
  const std::string where = flag + " " + text;
  std::vector<double> values;
  for (const std::string& word : split_list(text)) {
    if (const auto value = number(word)) {
      values.push_back(*value);
    } else if (const auto range = range_of(word)) {
      OUTRIDER_RETURN_IF_ERROR(add_range(*range, where, values));
    } else {
      return invalid_argument(where + ": '" + word +
                              "' is no number and no range (FIRST-LAST or FIRST-LAST+STEP)");
    }
  }
  OUTRIDER_RETURN_IF_ERROR(check(values, where, bounds));
  return values;
}

Result<std::vector<int>> parse_whole_values(const std::string& text, const std::string& flag,
                                            const ValueBounds& bounds) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> values, parse_values(text, flag, bounds));
  std::vector<int> whole;
  for (const double value : values) {
    if (value != std::floor(value)) {
      return invalid_argument(fmt::format("{} {}: {:.9g} is no whole number", flag, text, value));
    }
    whole.push_back(static_cast<int>(value));
  }
  return whole;
}

namespace {

constexpr const char* kGridGroup = "Compared values (lists and ranges make a grid)";
constexpr const char* kRunGroup = "Execution";
constexpr const char* kReportGroup = "Results";
constexpr const char* kNetworkPace = "table9-5ms";  // a fast target, where links matter most

std::string with_temperature(std::string name, double temperature, bool several) {
  return several ? fmt::format("{}, T={:.3g}", name, temperature) : name;
}

// The settings of one pace, at its own link or at each network.
Result<std::vector<GridSetting>> at_networks(const GridSetting& setting, const PaperPace& pace,
                                             const RunFlags& flags) {
  if (flags.networks.empty()) return std::vector{setting};
  std::vector<GridSetting> settings;
  for (const std::string& network : flags.networks) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<LinkProfile> links, parse_links(network));
    for (const LinkProfile& link : links) {
      GridSetting moved = setting;
      moved.pace = device_of(pace.name);
      moved.network = link.name;
      moved.name = link.name + ", " + moved.pace;
      moved.link = link;
      moved.link_kind = flags.link_kind;
      settings.push_back(std::move(moved));
    }
  }
  return settings;
}

// Refuses contradictory flags.
Status check_flags(const RunFlags& flags) {
  if (flags.grid.prompts.empty()) {
    return invalid_argument(
        "--prompts is missing. Remedy: name a JSONL file with \"prompt\", or leave "
        "the flag out");
  }
  if (!flags.grid.plan.state_dir.empty() && flags.clock == RunClock::kVirtual) {
    return invalid_argument(
        "--learn-in: in virtual time edges store nothing between answers. Remedy: leave "
        "it out, or --clock real");
  }
  if (flags.grid.plan.connected && flags.clock != RunClock::kVirtual) {
    return invalid_argument(
        "--connected: each answer of --clock real has an edge of its own, which connects first. "
        "Remedy: --clock virtual");
  }
  if (flags.slo_unverified && !flags.limits.e2el_ms) {
    return invalid_argument(
        "--slo-unverified is what there is of an answer by --deadline-ms, which is missing. "
        "Remedy: --deadline-ms 800, or another time");
  }
  if (!flags.energy.device_file.empty() && flags.clock != RunClock::kVirtual) {
    return invalid_argument(
        "--device-file: what each part does when is known in virtual time only. Remedy: "
        "--clock virtual, or leave it out: an edge reports what its machine measures");
  }
  if (!flags.networks.empty() && !flags.delays_ms.empty()) {
    return invalid_argument(
        "--network and --delay-ms contradict each other: a network has its own delay. Remedy: "
        "--network delay=20ms is a delay only");
  }
  if (flags.grid.plan.server.empty()) return {};
  OUTRIDER_RETURN_IF_ERROR(parse_address(flags.grid.plan.server).status().with_context("--server"));
  if (!flags.networks.empty() || !flags.delays_ms.empty()) {
    return invalid_argument("--server " + flags.grid.plan.server +
                            " is on a real network: none is emulated. Remedy: leave out "
                            "--network and --delay-ms");
  }
  return {};
}

Result<GridFlags> grid_flags(const RunFlags& flags) {
  GridFlags grid = flags.grid;
  if (!flags.delays_ms.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(grid.delays_ms,
                              parse_values(flags.delays_ms, "--delay-ms", {0, 10000}));
  }
  if (grid.paces.empty()) {
    grid.paces = {!flags.grid.plan.server.empty() ? "unpaced"
                  : flags.networks.empty()        ? "all"
                                                  : kNetworkPace};
  }
  if (flags.grid.plan.server.empty()) return grid;
  for (const std::string& pace : grid.paces) {
    if (pace == "unpaced") continue;
    return invalid_argument("--pace " + pace + ": --server " + flags.grid.plan.server +
                            " has its own pace. Remedy: --pace unpaced");
  }
  return grid;
}

// Synthetic parts run in virtual time, without sampling.
Status check_synthetic(const RunFlags& flags, const std::vector<double>& temperatures) {
  const bool exits = flags.grid.plan.exits == kSyntheticExits;
  if (!exits && flags.synthetic.empty()) return {};
  const std::string flag = exits ? "--exits synthetic" : "--synthetic-acceptance";
  if (flags.clock != RunClock::kVirtual) {
    return invalid_argument(flag + " is for the simulation. Remedy: --clock virtual");
  }
  for (const double temperature : temperatures) {
    if (temperature == 0) continue;
    return invalid_argument(fmt::format(
        "{} knows no sampling, but --temp is {:g}. Remedy: --temp 0", flag, temperature));
  }
  return {};
}

// Each setting once for each data set.
Result<std::vector<GridSetting>> with_data_sets(const RunFlags& flags,
                                                std::vector<GridSetting> settings) {
  if (flags.synthetic.empty()) return settings;
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<SyntheticAcceptance> sets,
                            read_synthetic_acceptance(flags.synthetic));
  std::vector<GridSetting> all;
  for (const GridSetting& setting : settings) {
    for (const SyntheticAcceptance& set : sets) {
      all.push_back(setting);
      all.back().synthetic = set;
      all.back().name += ", " + set.name + " (synthetic)";
    }
  }
  return all;
}

Status check_variants(const std::vector<GridVariant>& variants, const RunFlags& flags) {
  const std::string& server = flags.grid.plan.server;
  for (const GridVariant& variant : variants) {
    if (variant.outside != nullptr && flags.clock != RunClock::kVirtual) {
      return invalid_argument(
          "--strategy " + variant.name +
          "=..: a program decides in virtual time only. Remedy: --clock virtual");
    }
    const bool emulated = variant.server_drafts != DraftSource::kNone || variant.drafts_blocks ||
                          variant.place == DraftPlace::kStrongEdge;
    if (emulated && flags.clock != RunClock::kVirtual) {
      return invalid_argument("--strategy " + variant.name +
                              ": the draft has no emulated pace in real time. Remedy: "
                              "--clock virtual");
    }
    const bool own_server = variant.place != DraftPlace::kEdge || variant.without_exits;
    if (server.empty() || !own_server) continue;
    return invalid_argument("--strategy " + variant.name + " needs a server of its own, not " +
                            server + ". Remedy: leave it out, or --server");
  }
  return {};
}

Status check_plan(const GridPlan& plan) {
  if (plan.settings.size() * plan.variants.size() * plan.prompts.size() > 1'000'000) {
    return invalid_argument("the grid has more than a million answers. Remedy: fewer values");
  }
  std::set<std::string> names;
  for (const GridSetting& setting : plan.settings) {
    if (names.insert(setting.name).second) continue;
    return invalid_argument("'" + setting.name +
                            "' stands twice in the grid. Remedy: name each network once");
  }
  return {};
}

}  // namespace

namespace {

void add_compared_flags(CLI::App& command, RunFlags& flags) {
  command.add_option("--scenario", flags.scenario,
                     "A TOML file with flags as its keys; flags given here take precedence");
  command
      .add_option("--network", flags.networks,
                  "Networks: ethernet wifi wifi-roam 5g lte 4g-fast 4g-slow 3g 3g-slow starlink "
                  "satellite flaky offline, all, trace:FILE, or with changes (lte+loss=2%) [the "
                  "pace's own delay]")
      ->delimiter(',')
      ->group(kGridGroup);
  command
      .add_option(
          "--strategy", flags.strategies,
          "What is compared: ar, sd, fsd, mirror; other systems' strategies: specedge, ssd, "
          "picospec; sd-best, fsd-best: the best fixed γ of 2 to 8; sd-cloud: draft beside "
          "the target; edge-only: the draft alone; or all; at their best γ: sd-cloud-best, "
          "block-cloud (one step drafts a round), edge-strong (draft and target on a strong "
          "edge); mirror-sd: Mirror-SD; ar-server, mirror-server: the server drafts too "
          "(ar-server-model, ar-server-lookup: by one source; ar-server-alone, "
          "mirror-server-alone: a draft model on a device of its own); mirror-plain, mirror-exits, "
          "mirror-fanout: mirror without both, or with one; NAME=COMMAND: what a program decides "
          "(docs/lab.md)")
      ->delimiter(',')
      ->group(kGridGroup);
  command
      .add_option("--synthetic-acceptance", flags.synthetic,
                  "A TOML file of data sets (tau, miss_rate, mean_exit): a pair without models "
                  "with the acceptance of each; virtual time only")
      ->group(kGridGroup);
  command.add_option("--temp", flags.temperatures, "Temperatures: 0,0.7 or 0-1+0.5")
      ->group(kGridGroup);
  command
      .add_option("--spec-draft-n-max", flags.gammas,
                  "Tokens drafted in a round (γ; for mirror the most): 4 or 2-8 [4, mirror 8]")
      ->group(kGridGroup);
  command
      .add_option("--delay-ms", flags.delays_ms,
                  "One-way delays instead of the paces' own: 1,25 or 0-100+25")
      ->group(kGridGroup);
}

// The form of each answer, and by when it is due.
void add_answer_flags(CLI::App& command, RunFlags& flags) {
  command
      .add_option("--grammar", flags.grid.plan.grammar,
                  "The form of each answer, in GBNF, of which `root` is the answer's rule [any]")
      ->group(kRunGroup);
  command
      .add_flag("--connected", flags.grid.plan.connected,
                "Each edge is connected before its answer begins, as one of `serve` that has "
                "answered before; virtual time only")
      ->group(kRunGroup);
  const auto add_limit = [&](const char* flag, std::optional<double>& limit, const char* what) {
    command.add_option(flag, limit, what)->check(CLI::Range(0.001, 1e9))->group(kRunGroup);
  };
  add_limit("--deadline-ms", flags.limits.e2el_ms, "Deadline of an answer; longer ones miss it");
  command
      .add_flag("--slo-unverified", flags.slo_unverified,
                "By --deadline-ms edges that draft give what they expect of an answer, which the "
                "target then confirms or corrects: how many are whole by then")
      ->group(kRunGroup);
  add_limit("--slo-ttft-ms", flags.limits.ttft_ms, "Goodput: limit of the time to the first token");
  add_limit("--slo-tpot-ms", flags.limits.tpot_ms, "Goodput: limit of the time per token after it");
}

}  // namespace

CLI::App& add_run_flags(CLI::App& command, RunFlags& flags) {
  add_compared_flags(command, flags);
  add_choice(command, "--clock", flags.clock,
             "real: programs over gRPC and a link; virtual: the simulation, without waiting")
      ->group(kRunGroup);
  command
      .add_option("--repetitions", flags.grid.plan.repetitions,
                  "Repetitions of each answer, interleaved")
      ->check(CLI::Range(1, 1000))
      ->group(kRunGroup);
  command
      .add_option("--least-answers", flags.least_answers,
                  "Fewer answers of a strategy leave a network inconclusive")
      ->group(kRunGroup);
  command.add_option("--threads", flags.grid.plan.threads, "Compute threads of each program")
      ->check(CLI::Range(1, 1024))
      ->group(kRunGroup);
  command
      .add_option("--server", flags.grid.plan.server,
                  "HOST:PORT of a running server: its own target and network, no emulation")
      ->group(kRunGroup);
  command
      .add_option("--learn-in", flags.grid.plan.state_dir,
                  "A new folder in which edges store what they learnt, apart for each setting and "
                  "strategy [nothing is stored between answers]")
      ->group(kRunGroup);
  add_choice(command, "--link", flags.link_kind,
             "How to make networks: emulated (root), modelled (a proxy), best: emulated if "
             "possible")
      ->group(kRunGroup);
  add_answer_flags(command, flags);
  command
      .add_option(
          "--out", flags.out,
          "Folder for requests.jsonl, report.json, report.csv, report.md; an interrupted run "
          "resumes there")
      ->group(kReportGroup);
  command.add_option("--html", flags.html, "Write the report as one page to this file")
      ->group(kReportGroup);
  add_force_flag(command)->group(kReportGroup);
  command
      .add_option(
          "--price-file", flags.price_file,
          "Prices of tokens, GPU hours, bytes and power (a dated TOML file, as for `price`): "
          "the report lists the costs of answers")
      ->group(kReportGroup);
  add_energy_flags(command, flags.energy, kReportGroup);
  command.add_flag("--fresh", flags.fresh, "Discard the results of an earlier run in --out")
      ->group(kReportGroup);
  command.add_flag("--json", flags.json, "Print only the line of JSON, no table")
      ->group(kReportGroup);
  command
      .add_option("--corrupt-variant", flags.corrupted,
                  "A test hook: spoil the last token of this variant's answers")
      ->group("");
  return command;
}

Result<GridExperiment> make_run(const RunFlags& flags) {
  OUTRIDER_RETURN_IF_ERROR(check_flags(flags));
  OUTRIDER_ASSIGN_OR_RETURN(const GridFlags grid, grid_flags(flags));
  std::vector<int> gammas;
  if (!flags.gammas.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(gammas,
                              parse_whole_values(flags.gammas, "--spec-draft-n-max", {1, 64}));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> temperatures,
                            parse_values(flags.temperatures, "--temp", {0, 100}));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<GridVariant> variants,
                            contenders(flags.strategies, gammas));
  OUTRIDER_RETURN_IF_ERROR(check_variants(variants, flags));
  OUTRIDER_RETURN_IF_ERROR(check_synthetic(flags, temperatures));
  OUTRIDER_ASSIGN_OR_RETURN(GridExperiment base, make_experiment(grid, std::move(variants)));
  GridExperiment run{.plan = base.plan, .paces = {}, .exit_cost = base.exit_cost};
  run.plan.settings.clear();
  std::set<std::string> devices;
  for (std::size_t i = 0; i < base.paces.size(); ++i) {
    // Table 9 has three links, and a network replaces each of them.
    if (!flags.networks.empty() && !devices.insert(device_of(base.paces[i].name)).second) continue;
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<GridSetting> settings,
                              at_networks(base.plan.settings[i], base.paces[i], flags));
    OUTRIDER_ASSIGN_OR_RETURN(settings, with_data_sets(flags, std::move(settings)));
    for (const GridSetting& setting : settings) {
      for (const double temperature : temperatures) {
        GridSetting one = setting;
        one.name = with_temperature(setting.name, temperature, temperatures.size() > 1);
        one.sampling.temperature = static_cast<float>(temperature);
        PaperPace pace = base.paces[i];
        pace.name = one.name;
        if (!one.network.empty() || one.synthetic) {
          pace.group = PaceGroup::kOther;
          pace.paper.reset();
          pace.one_way_ms = to_ms(one.link.up.delay + one.link.down.delay) / 2;
        }
        run.paces.push_back(std::move(pace));
        run.plan.settings.push_back(std::move(one));
      }
    }
  }
  OUTRIDER_ASSIGN_OR_RETURN(run.plan.energy, energy_model(flags.energy, flags.grid.plan.threads));
  if (flags.slo_unverified) run.plan.unverified_by_ms = flags.limits.e2el_ms;
  OUTRIDER_RETURN_IF_ERROR(check_plan(run.plan));
  return run;
}

}  // namespace outrider
