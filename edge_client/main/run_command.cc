// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <iterator>
#include <memory>
#include <stop_token>
#include <string>

#include "common/base/files.h"
#include "common/cli/program.h"
#include "common/conversation/conversation.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/main/commands.h"
#include "edge_client/main/console.h"
#include "edge_client/main/trace_file.h"
#include "edge_client/report/answer_report.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxPromptBytes = std::int64_t{1} << 26;

Result<std::string> read_prompt(const PromptOptions& options) {
  if (options.prompt) return *options.prompt;
  if (options.file.empty()) return invalid_argument("what prompt? give -p TEXT or -f FILE");
  if (options.file != "-") return read_file(options.file, kMaxPromptBytes);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

}  // namespace

Result<int> run_command(const AnswerOptions& options, const PromptOptions& prompt_options,
                        Interrupts& interrupts) {
  OUTRIDER_ASSIGN_OR_RETURN(const GenerationConfig config, generation_config(options));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, read_prompt(prompt_options));
  std::stop_source stop;
  Console console({.color_accept = options.color_accept,
                   .show_provisional = config.answer.show_provisional,
                   .on_broken_pipe = [&] { stop.request_stop(); }});
  TraceFile trace(options.trace);
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSetup> setup, EdgeSetup::load(config));
  OUTRIDER_ASSIGN_OR_RETURN(EncodedPrompt encoded,
                            encode_prompt(setup->tokenizer(), prompt,
                                          prompt_options.raw ? "none" : options.chat_template));
  if (setup->flash() != nullptr) trace.watch(setup->flash()->log());
  Generator generator(setup->parts(trace.observer()), console);

  interrupts.on_interrupt([&] { stop.request_stop(); });
  const Result<AnswerReport> report =
      generator.answer({.prompt = std::move(encoded), .config = config.answer}, stop.get_token());
  interrupts.on_interrupt(nullptr);
  if (!report.ok()) return report.status();

  console.end_line();
  console.print_error_stream(stats_block(*report));
  if (options.explain) console.print_error_stream(explanation(*report));
  OUTRIDER_RETURN_IF_ERROR(trace.write());
  if (options.json) console.print_line(stats_json(*report));
  const Finish& finish = report->finish;
  if (console.broken()) return kExitRuntime;
  if (finish.ending == Ending::kCancelled) return kExitInterrupted;
  if (finish.ending == Ending::kLinkLost || finish.ending == Ending::kFailed) return finish.status;
  return kExitOk;
}

}  // namespace outrider
