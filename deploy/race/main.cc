// outrider-race: a demonstration. Plain cloud decoding and mirrored speculation answer one question
// at the same time, over an emulated link and at an emulated target's pace.
// SPDX-License-Identifier: Apache-2.0
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "bench/paces/paces.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/serving/cli/program.h"
#include "deploy/race/lanes.h"
#include "edge_client/report/answer_record.h"
#include "edge_client/speculation/strategy.h"
#include "emulation/link/link.h"
#include "emulation/path/link_spec.h"
#include "emulation/process/process.h"
#include "emulation/process/server_process.h"

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

// A server, its link and the command of its edge. Members end in reverse order: a server runs in
// its link's namespace.
struct Runner {
  std::string name;
  std::unique_ptr<Link> link;
  std::unique_ptr<ServerProcess> server;
  ProcessOptions edge;
  Result<FinishedProcess> finished = unavailable("it did not run");
};

struct RaceSetting {
  LinkProfile link;
  PaceCurve pass;
  PaceCurve step;
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
  race.link = links.front();
  race.pass = pass_curve(paces.front());
  race.step = step_curve(paces.front());
  return race;
}

Result<Runner> make_runner(const RaceOptions& options, const RaceSetting& race, Strategy strategy) {
  Runner runner;
  runner.name = strategy == Strategy::kAr ? "cloud decoding" : "Outrider";
  OUTRIDER_ASSIGN_OR_RETURN(runner.link, start_link(race.link, {.seed = options.seed}));
  std::vector<std::string> server = {"--model", options.target, "--threads",
                                     "1",       "--log-level",  "warning"};
  if (strategy != Strategy::kAr) server.emplace_back("--draft-source=lookup");
  if (!race.pass.empty()) server.insert(server.end(), {"--pace-pass-ms", race.pass.to_string()});
  OUTRIDER_ASSIGN_OR_RETURN(runner.server,
                            ServerProcess::start(server, std::nullopt, runner.link->server_side()));
  OUTRIDER_ASSIGN_OR_RETURN(const Address address, runner.link->route(runner.server->address()));
  runner.link->begin_again(Duration{0}, options.seed);
  OUTRIDER_ASSIGN_OR_RETURN(runner.edge.program, sibling_program("outrider-lab-edge"));
  runner.edge.network_namespace = runner.link->edge_side().network_namespace;
  runner.edge.arguments = {"run",
                           "--json",
                           "--log-level=warning",
                           "--threads=1",
                           "--server=" + address.to_string(),
                           std::string("--strategy=") + name_of(strategy),
                           "--max-tokens=" + std::to_string(options.max_tokens),
                           "--seed=" + std::to_string(options.seed),
                           "--generation-config=none",
                           "--prompt=" + race.prompt};
  if (!is_loopback(address.host)) runner.edge.arguments.emplace_back("--insecure");
  if (strategy == Strategy::kAr) {
    runner.edge.arguments.push_back("--tokenizer=" + options.draft);
  } else {
    runner.edge.arguments.push_back("--model=" + options.draft);
    if (!race.step.empty()) {
      runner.edge.arguments.push_back("--pace-step-ms=" + race.step.to_string());
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

// Runs both edges at once, with lanes on a terminal until both have ended.
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

Result<AnswerRecord> answer_of(const Runner& runner) {
  if (!runner.finished.ok()) return runner.finished.status();
  if (runner.finished->exit_code != 0) {
    return unavailable(runner.name + ": " + last_error_line(runner.finished->err));
  }
  return read_answer_record(last_line(runner.finished->out), "the last line of outrider-edge");
}

double seconds_of(const AnswerRecord& record) {
  return (record.stats.ttft_ms.value_or(0) + record.stats.decode_ms.value_or(0)) / 1e3;
}

void say_how(const RaceSetting& race, const Runner& runner) {
  std::fprintf(
      stderr,
      "\nA race: the same question to two servers, one decodes alone (cloud decoding), one with "
      "this edge's draft (Outrider).\nEmulated: the link (%s, round trip %.0f ms, %s), the pace of "
      "a 7B target on an A100 (%.1f ms per pass) and of a draft on a Jetson (%.1f ms per step). "
      "Real: "
      "models, tokens, programs.\n\n",
      race.link.name.c_str(), to_ms(race.link.up.delay + race.link.down.delay), runner.link->kind(),
      race.pass.ms(1), race.step.ms(1));
}

// Whether both texts are equal.
Result<bool> run_race(const RaceOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const RaceSetting race, make_setting(options));
  OUTRIDER_ASSIGN_OR_RETURN(Runner plain, make_runner(options, race, Strategy::kAr));
  OUTRIDER_ASSIGN_OR_RETURN(Runner ours, make_runner(options, race, Strategy::kMirror));
  say_how(race, plain);
  std::array<Runner, 2> runners = {std::move(plain), std::move(ours)};
  run_both(runners);
  std::array<AnswerRecord, 2> answers;
  Json line = {{"link", race.link.description()}, {"link_kind", runners[0].link->kind()}};
  for (std::size_t i = 0; i < runners.size(); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(answers[i], answer_of(runners[i]));
    const CarriedBytes bytes = runners[i].link->traffic();
    std::fprintf(stderr, "%s%-15s %5.2f s, %zu tokens, %llu bytes up, %llu down\n",
                 i == 0 ? "\n" : "", runners[i].name.c_str(), seconds_of(answers[i]),
                 answers[i].ids.size(), static_cast<unsigned long long>(bytes.up),
                 static_cast<unsigned long long>(bytes.down));
    line[i == 0 ? "cloud_seconds" : "edge_seconds"] = seconds_of(answers[i]);
    line[i == 0 ? "cloud_bytes" : "edge_bytes"] = {bytes.up, bytes.down};
  }
  const bool same = answers[0].ids == answers[1].ids;
  const double before = seconds_of(answers[0]), after = seconds_of(answers[1]);
  std::fprintf(stderr, "%s; Outrider was %.1f times as fast.\n",
               same ? "The texts are equal, token by token" : "THE TEXTS DIFFER",
               after > 0 ? before / after : 0);
  line.update({{"passed", same}, {"same_text", same}, {"tokens", answers[0].ids.size()}});
  std::printf("%s\n", line.dump().c_str());
  return same;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  outrider::Program program("outrider-race", "Shows cloud decoding and Outrider side by side.");
  setenv("OUTRIDER_STATE_DIR", "none", 0);  // no earlier answer counts
  outrider::RaceOptions options;
  CLI::App& app = program.app();
  app.add_option("--target", options.target, "Target: a directory or a GGUF file");
  app.add_option("--draft", options.draft, "Draft: a directory or a GGUF file");
  app.add_option("--prompt-file", options.prompt_file, "The question")->required();
  app.add_option("--network", options.network, "The emulated link");
  app.add_option("--pace", options.pace, "The emulated devices, a pace of the FSD paper");
  app.add_option("--max-tokens", options.max_tokens, "Most tokens of the answer")
      ->check(CLI::Range(2, 1000));
  app.add_option("--seed", options.seed, "Seed of the noise");
  if (const std::optional<int> code = program.parse(argc, argv)) return *code;
  const outrider::Result<bool> same = outrider::run_race(options);
  if (!same.ok()) return program.finish(same.status());
  return *same ? outrider::kExitOk : outrider::kExitRuntime;
}
