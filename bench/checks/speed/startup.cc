// startup: how long a user waits, from starting outrider-edge to its first token on stdout, with
// the server already running. The time is connecting, loading and prefill. With --resident: the
// same for a model on this device, from the second start on. It also measures the edge's memory
// beside weights and KV cache. SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/checks/checks.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/format/model_files.h"
#include "emulation/process/process.h"
#include "emulation/process/server_process.h"

namespace outrider {
namespace {

constexpr double kBarMs = 150;
constexpr double kResidentBarMs = 500;
constexpr double kMaxOverheadMb = 150;
constexpr std::int64_t kContext = 1024;
constexpr Duration kTimeout = std::chrono::minutes(1);

struct StartupOptions {
  std::string target = "models/demo-target";
  std::string draft = "models/demo-draft";
  std::string prompt = "In view: red cup 20 degrees left at 2.1 m. Task: find the red cup.";
  int runs = 21;
  std::string resident;
  std::string dtype = "auto";
  std::optional<double> most_ms;
};

Result<FinishedProcess> run_edge(const ProcessOptions& edge) {
  OUTRIDER_ASSIGN_OR_RETURN(const FinishedProcess done, run_process(edge, kTimeout));
  if (done.exit_code != 0 || !done.first_out) {
    return unavailable("outrider-edge ended with code " + std::to_string(done.exit_code) + ": " +
                       done.err);
  }
  return done;
}

Result<std::vector<double>> first_tokens_ms(const ProcessOptions& edge, int runs,
                                            std::int64_t& peak_bytes) {
  OUTRIDER_RETURN_IF_ERROR(run_edge(edge).status());  // the first run fills caches
  std::vector<double> ms;
  for (int run = 0; run < runs; ++run) {
    OUTRIDER_ASSIGN_OR_RETURN(const FinishedProcess done, run_edge(edge));
    ms.push_back(to_ms(*done.first_out));
    peak_bytes = std::max(peak_bytes, done.peak_bytes);
  }
  return ms;
}

Json figures_of(const std::vector<double>& ms) {
  return {{"p50_ms", median(ms)->value},
          {"min_ms", quantile(ms, 0)},
          {"max_ms", quantile(ms, 1)},
          {"runs", ms.size()}};
}

// Weights and KV cache of the edge's model, MB.
Result<double> model_mb(const std::string& path, const std::string& dtype) {
  OUTRIDER_ASSIGN_OR_RETURN(const auto files, load_model_files(path, {}));
  const ModelConfig& config = files->config;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                            make_cpu_model(files, {.dtype = dtype}));
  const std::int64_t kv_bytes = 2 * config.num_layers * kContext * config.kv_size() *
                                static_cast<std::int64_t>(sizeof(float));
  return static_cast<double>(model->info().weight_bytes + kv_bytes) / 1e6;
}

// Times the starts of an edge with its own model at `path`.
Result<CheckOutcome> judge_starts(const ProcessOptions& edge, const StartupOptions& options,
                                  const std::string& path, double bar_ms) {
  std::int64_t peak_bytes = 0;
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> ms,
                            first_tokens_ms(edge, options.runs, peak_bytes));
  // Only now, because an edge's peak memory includes what this process held when it started the
  // edge.
  OUTRIDER_ASSIGN_OR_RETURN(const double mb,
                            model_mb(path, options.resident.empty() ? "auto" : options.dtype));
  const double overhead_mb = static_cast<double>(peak_bytes) / 1e6 - mb;
  const Bar bars[] = {{"p50_ms", *median(ms), options.most_ms.value_or(bar_ms), Bar::Side::kAtMost},
                      {"rss_over_model_mb",
                       {overhead_mb, Interval{overhead_mb, overhead_mb}},
                       kMaxOverheadMb,
                       Bar::Side::kAtMost}};
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = figures_of(ms);
  outcome.figures["rss_mb"] = static_cast<double>(peak_bytes) / 1e6;
  outcome.figures["weights_and_kv_mb"] = mb;
  outcome.figures["dtype"] = options.dtype;
  outcome.hold(bars);
  return outcome;
}

Result<CheckOutcome> run_startup(const StartupOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string program, sibling_program("outrider-edge"));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ServerProcess> server,
                            ServerProcess::start({"--model", options.target, "--dtype",
                                                  options.dtype, "--log-level", "warning"}));
  const ProcessOptions edge{
      .program = program,
      .arguments = {"run", "--model=" + options.draft, "--server=" + server->address().to_string(),
                    "--prompt=" + options.prompt, "--max-tokens=8", "-c", std::to_string(kContext)},
      .core = {}};
  return judge_starts(edge, options, options.draft, kBarMs);
}

Result<CheckOutcome> run_resident(const StartupOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string program, sibling_program("outrider-edge"));
  const auto cache =
      std::filesystem::temp_directory_path() / ("outrider-startup-" + std::to_string(getpid()));
  const ProcessOptions edge{
      .program = program,
      .arguments = {"run", "--target=" + options.resident, "--dtype=" + options.dtype,
                    "--cache-dir=" + cache.string(), "--prompt=" + options.prompt, "--max-tokens=1",
                    "-c", std::to_string(kContext)},
      .core = {}};
  Result<CheckOutcome> outcome = judge_starts(edge, options, options.resident, kResidentBarMs);
  std::error_code ignored;
  std::filesystem::remove_all(cache, ignored);
  return outcome;
}

}  // namespace

void add_startup_check(CheckList& checks) {
  auto options = std::make_shared<StartupOptions>();
  CLI::App* command = checks.add(
      "startup", "From starting outrider-edge to its first token, server running", [options] {
        return options->resident.empty() ? run_startup(*options) : run_resident(*options);
      });
  command->add_option("--target", options->target, "Target: a directory or a GGUF file");
  command->add_option("--draft", options->draft, "Draft: a directory or a GGUF file");
  command->add_option("--prompt", options->prompt, "The prompt");
  command->add_option("--resident", options->resident,
                      "Instead: a target on this device, measured from its second start on");
  command->add_option("--dtype", options->dtype,
                      "How the target computes: auto, f32, bf16, int8 or int4");
  command->add_option("--most-ms", options->most_ms,
                      "The bar: median to the first token [150; with --resident 500]");
  command->add_option("--runs", options->runs, "Starts to measure")->check(CLI::PositiveNumber);
}

}  // namespace outrider
