// race: one question, answered by plain cloud decoding and by mirrored speculation at the same
// time, over an emulated link and at an emulated target's pace: to look at.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "bench/checks/checks.h"
#include "bench/harness/answer.h"
#include "bench/harness/server_pool.h"
#include "bench/link/path/link_spec.h"
#include "bench/paces/paces.h"
#include "bench/process/output_lines.h"
#include "bench/race/lanes.h"
#include "common/base/files.h"

namespace outrider {
namespace {

constexpr Duration kAtMost = std::chrono::seconds(18);  // of one lane
constexpr Duration kFrame = std::chrono::milliseconds(40);
constexpr std::int64_t kMaxPromptBytes = 1 << 20;

struct RaceOptions {
  std::string target = "models/demo-target";
  std::string draft = "models/demo-draft";
  std::string prompt_file;
  std::string network = "lte";
  std::string pace = "table9-5ms";
  int max_tokens = 120;
  std::uint64_t seed = 0;
};

// A server, its link and how its edge is started.
struct Runner {
  std::string name;
  std::unique_ptr<ServerPool> pool;
  ProcessOptions edge;
  Link* link = nullptr;
  Result<FinishedProcess> finished = unavailable("it did not run");
};

struct RaceSetting {
  GridPlan plan;
  GridSetting setting;
  std::string prompt;
};

Result<RaceSetting> make_setting(const RaceOptions& options) {
  RaceSetting race;
  OUTRIDER_ASSIGN_OR_RETURN(race.prompt, read_file(options.prompt_file, kMaxPromptBytes));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<LinkProfile> links, parse_links(options.network));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PaperPace> paces, find_paces({options.pace}));
  if (links.size() != 1 || paces.size() != 1) {
    return invalid_argument("a race runs over one --network at one --pace");
  }
  race.plan.target = options.target;
  race.plan.draft = options.draft;
  race.plan.seed = options.seed;
  race.setting.name = "race";
  race.setting.pass = pass_curve(paces.front());
  race.setting.step = step_curve(paces.front());
  race.setting.link = links.front();
  race.setting.link_kind = LinkKind::kBest;
  return race;
}

Result<Runner> make_runner(const RaceOptions& options, const RaceSetting& race, Strategy strategy) {
  Runner runner;
  runner.name = strategy == Strategy::kAr ? "cloud decoding" : "Outrider";
  runner.pool = std::make_unique<ServerPool>(race.plan, race.setting, std::nullopt);
  OUTRIDER_ASSIGN_OR_RETURN(const LinkedServer* server, runner.pool->find({}));
  runner.link = server->link.get();
  runner.link->begin_again(Duration{0}, options.seed);
  OUTRIDER_ASSIGN_OR_RETURN(runner.edge.program, sibling_program("outrider-edge"));
  runner.edge.network_namespace = runner.link->edge_side().network_namespace;
  runner.edge.arguments = {"run",
                           "--json",
                           "--log-level=warning",
                           "--threads=1",
                           "--server=" + server->address.to_string(),
                           std::string("--strategy=") + name_of(strategy),
                           "--max-tokens=" + std::to_string(options.max_tokens),
                           "--seed=" + std::to_string(options.seed),
                           "--prompt=" + race.prompt};
  if (!is_loopback(server->address.host)) runner.edge.arguments.emplace_back("--insecure");
  if (strategy == Strategy::kAr) {
    runner.edge.arguments.push_back("--tokenizer=" + options.draft);
  } else {
    runner.edge.arguments.push_back("--model=" + options.draft);
    if (!race.setting.step.empty()) {
      runner.edge.arguments.push_back("--pace-step-ms=" + race.setting.step.to_string());
    }
  }
  return runner;
}

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 30) return 80;
  return size.ws_col;
}

void draw(const Lanes& lanes, bool first) {
  const std::vector<std::string> lines = lanes.lines();
  if (!first) std::fprintf(stderr, "\033[%zuA", lines.size());
  for (const std::string& line : lines) std::fprintf(stderr, "\r\033[K%s\n", line.c_str());
  std::fflush(stderr);
}

// Both edges at once; lanes on a terminal until both have ended.
void run_both(std::array<Runner, 2>& runners) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  Lanes lanes({runners[0].name, runners[1].name}, terminal_width());
  std::atomic<int> running = 2;
  std::array<std::thread, 2> threads;
  for (std::size_t i = 0; i < runners.size(); ++i) {
    threads[i] = std::thread([&, i] {
      runners[i].finished = run_process(runners[i].edge, kAtMost,
                                        [&, i](std::string_view text) { lanes.add(i, text); });
      --running;
    });
  }
  for (bool first = true; terminal; first = false) {
    const bool last = running == 0;
    draw(lanes, first);
    if (last) break;
    std::this_thread::sleep_for(kFrame);
  }
  for (std::thread& thread : threads) thread.join();
}

Result<EdgeAnswer> answer_of(const Runner& runner) {
  if (!runner.finished.ok()) return runner.finished.status();
  if (runner.finished->exit_code != 0) {
    return unavailable(runner.name + ": " + last_error_line(runner.finished->err));
  }
  OUTRIDER_ASSIGN_OR_RETURN(EdgeAnswer answer, read_edge_answer(last_line(runner.finished->out)));
  const CarriedBytes bytes = runner.link->traffic();
  answer.figures.wire_up = static_cast<double>(bytes.up);
  answer.figures.wire_down = static_cast<double>(bytes.down);
  return answer;
}

double seconds_of(const AnswerRecord& record) {
  return (record.ttft_ms.value_or(0) + record.decode_ms.value_or(0)) / 1e3;
}

void say_how(const RaceSetting& race, const Runner& runner) {
  const LinkProfile& link = race.setting.link;
  std::fprintf(
      stderr,
      "\nA race: the same question to two servers, one decodes alone (cloud decoding), one with "
      "this edge's draft (Outrider).\nEmulated: the link (%s, round trip %.0f ms, %s), the pace of "
      "a 7B target on an A100 (%.1f ms a pass) and of a draft on a Jetson (%.1f ms a step). Real: "
      "models, tokens, programs.\n\n",
      link.name.c_str(), to_ms(link.up.delay + link.down.delay), runner.link->kind(),
      race.setting.pass.ms(1), race.setting.step.ms(1));
}

Result<CheckOutcome> run_race(const RaceOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const RaceSetting race, make_setting(options));
  OUTRIDER_ASSIGN_OR_RETURN(Runner plain, make_runner(options, race, Strategy::kAr));
  OUTRIDER_ASSIGN_OR_RETURN(Runner ours, make_runner(options, race, Strategy::kMirror));
  say_how(race, plain);
  std::array<Runner, 2> runners = {std::move(plain), std::move(ours)};
  run_both(runners);
  OUTRIDER_ASSIGN_OR_RETURN(const EdgeAnswer cloud, answer_of(runners[0]));
  OUTRIDER_ASSIGN_OR_RETURN(const EdgeAnswer edge, answer_of(runners[1]));
  const bool same = cloud.record.ids == edge.record.ids;
  const double before = seconds_of(cloud.record), after = seconds_of(edge.record);
  for (const auto& [runner, answer] : {std::pair(&runners[0], &cloud), {&runners[1], &edge}}) {
    std::fprintf(stderr, "%s%-15s %5.2f s, %zu tokens, %.0f bytes up, %.0f down\n",
                 runner == &runners[0] ? "\n" : "", runner->name.c_str(),
                 seconds_of(answer->record), answer->record.ids.size(), answer->figures.wire_up,
                 answer->figures.wire_down);
  }
  std::fprintf(stderr, "%s; Outrider was %.1f times as fast.\n",
               same ? "The texts are equal, token by token" : "THE TEXTS DIFFER",
               after > 0 ? before / after : 0);
  CheckOutcome outcome{.passed = same};
  outcome.figures = {{"same_text", same},
                     {"cloud_seconds", before},
                     {"edge_seconds", after},
                     {"tokens", cloud.record.ids.size()},
                     {"link", race.setting.link.description()},
                     {"link_kind", runners[0].link->kind()},
                     {"cloud_bytes", {cloud.figures.wire_up, cloud.figures.wire_down}},
                     {"edge_bytes", {edge.figures.wire_up, edge.figures.wire_down}}};
  return outcome;
}

}  // namespace

void add_race_check(CheckList& checks) {
  auto options = std::make_shared<RaceOptions>();
  CLI::App* command = checks.add("race", "Cloud decoding and Outrider side by side, to look at",
                                 [options] { return run_race(*options); });
  command->add_option("--target", options->target, "Target: a directory or a GGUF file");
  command->add_option("--draft", options->draft, "Draft: a directory or a GGUF file");
  command->add_option("--prompt-file", options->prompt_file, "The question")->required();
  command->add_option("--network", options->network, "The emulated link");
  command->add_option("--pace", options->pace, "The emulated devices, one of `run --pace`");
  command->add_option("--max-tokens", options->max_tokens, "Most tokens of the answer")
      ->check(CLI::Range(2, 1000));
  command->add_option("--seed", options->seed, "Seed of the noise");
}

}  // namespace outrider
