// How long a user waits: from starting outrider-edge to its first token on stdout, against a server
// that runs. Models of the demo pair's size; the time is all connecting, loading and prefill.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/process/process.h"
#include "bench/process/server_process.h"

namespace outrider {
namespace {

constexpr double kBarMs = 150;
constexpr Duration kTimeout = std::chrono::minutes(1);

struct StartupOptions {
  std::string target = "models/demo-target";
  std::string draft = "models/demo-draft";
  std::string prompt = "In view: red cup 20 degrees left at 2.1 m. Task: find the red cup.";
  int runs = 21;
};

Result<double> first_token_ms(const ProcessOptions& edge) {
  OUTRIDER_ASSIGN_OR_RETURN(const FinishedProcess done, run_process(edge, kTimeout));
  if (done.exit_code != 0 || !done.first_out) {
    return unavailable("outrider-edge ended with code " + std::to_string(done.exit_code) + ": " +
                       done.err);
  }
  return to_ms(*done.first_out);
}

Result<CheckOutcome> run_startup(const StartupOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string program, sibling_program("outrider-edge"));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<ServerProcess> server,
      ServerProcess::start({"--model", options.target, "--log-level", "warning"}));
  const ProcessOptions edge{
      .program = program,
      .arguments = {"run", "--model=" + options.draft, "--server=" + server->address().to_string(),
                    "--prompt=" + options.prompt, "--max-tokens=8"},
      .core = {}};
  OUTRIDER_RETURN_IF_ERROR(first_token_ms(edge).status());  // the server's first answer
  std::vector<double> ms;
  for (int run = 0; run < options.runs; ++run) {
    OUTRIDER_ASSIGN_OR_RETURN(const double one, first_token_ms(edge));
    ms.push_back(one);
  }
  const Bar bar{"p50_ms", *median(ms), kBarMs, Bar::Side::kAtMost};
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = {{"p50_ms", bar.value.value},
                     {"min_ms", quantile(ms, 0)},
                     {"max_ms", quantile(ms, 1)},
                     {"runs", options.runs}};
  outcome.hold({&bar, 1});
  return outcome;
}

}  // namespace

void add_startup_check(CheckList& checks) {
  auto options = std::make_shared<StartupOptions>();
  CLI::App* command =
      checks.add("startup", "From starting outrider-edge to its first token, server running",
                 [options] { return run_startup(*options); });
  command->add_option("--target", options->target, "Target: a directory or a GGUF file");
  command->add_option("--draft", options->draft, "Draft: a directory or a GGUF file");
  command->add_option("--prompt", options->prompt, "The prompt");
  command->add_option("--runs", options->runs, "Starts to measure")->check(CLI::PositiveNumber);
}

}  // namespace outrider
