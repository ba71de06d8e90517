// outrider-passes: times the passes that its standard input requests. compare.py, beside this file,
// drives it and a peer in turn.
//
//   pass ROWS CONTEXT     ->  milliseconds of a pass of ROWS rows behind CONTEXT tokens
//   prefill TOKENS        ->  milliseconds of a prompt
//
// SPDX-License-Identifier: Apache-2.0
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "bench/peers/pass_timer.h"
#include "common/base/posix.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/format/model_files.h"

namespace outrider {
namespace {

Result<double> answer(PassTimer& runner, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  int first = 0, second = 0;
  words >> verb >> first;
  if (words && first > 0 && verb == "prefill") return runner.time_prefill(first);
  words >> second;
  if (words && first > 0 && second >= 0 && verb == "pass") return runner.time_pass(first, second);
  return invalid_argument("'" + line + "' is neither 'pass ROWS CONTEXT' nor 'prefill TOKENS'");
}

Status say(const std::string& line) {
  std::puts(line.c_str());
  if (std::fflush(stdout) == 0) return {};
  return unavailable("stdout: " + errno_message(errno));
}

Status serve(const std::string& directory, const CpuModelOptions& options, int capacity) {
  OUTRIDER_ASSIGN_OR_RETURN(auto files, load_model_files(directory, {}));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                            make_cpu_model(std::move(files), options));
  OUTRIDER_ASSIGN_OR_RETURN(PassTimer runner, PassTimer::make(*model, capacity));
  OUTRIDER_RETURN_IF_ERROR(say("ready " + model->info().dtype));
  for (std::string line; std::getline(std::cin, line);) {
    OUTRIDER_ASSIGN_OR_RETURN(const double seconds, answer(runner, line));
    OUTRIDER_RETURN_IF_ERROR(say(std::to_string(seconds * 1e3)));
  }
  return {};
}

}  // namespace
}  // namespace outrider

// CLI11 throws only if a flag is declared wrongly.
int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  std::signal(SIGPIPE, SIG_IGN);   // a closed reader is a failed write
  CLI::App app("Times the passes that standard input requests");
  std::string directory;
  outrider::CpuModelOptions options;
  options.threads = 2;
  int capacity = 4096;
  app.add_option("--model", directory, "Model")->required();
  app.add_option("--dtype", options.dtype, "auto, f32, bf16, int8 or int4");
  app.add_option("--kv-dtype", options.kv_dtype, "Keys and values: f32 or bf16");
  app.add_option("--kernel", options.kernel,
                 "auto, avx2, avx2vnni, avx512, neon, neondot or neoni8mm");
  app.add_option("--threads", options.threads, "Compute threads")->check(CLI::Range(1, 256));
  app.add_option("--capacity", capacity, "Tokens and rows at one time")
      ->check(CLI::Range(1, 1'000'000));
  CLI11_PARSE(app, argc, argv);
  const outrider::Status status = outrider::serve(directory, options, capacity);
  if (status.ok()) return 0;
  std::fprintf(stderr, "outrider-passes: %s\n", status.message().c_str());
  return 1;
}
