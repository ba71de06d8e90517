// SPDX-License-Identifier: Apache-2.0
#include "adapters/commands/torch_flags.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <CLI/Validators.hpp>
#include <cstdlib>
#include <filesystem>

#include "adapters/commands/commands.h"
#include "common/base/clock.h"
#include "common/base/processors.h"
#include "common/serving/telemetry/log.h"

namespace outrider {

bool cpu_has_bf16() {
#if defined(__x86_64__)
  // AMX-BF16: leaf 7, subleaf 0, EDX bit 22. AVX512-BF16: subleaf 1, EAX bit 5.
  unsigned eax = 7, ebx = 0, ecx = 0, edx = 0;
  __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  const bool amx = (edx & (1u << 22)) != 0;
  eax = 7;
  ecx = 1;
  __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  return amx || (eax & (1u << 5)) != 0;
#else
  return false;
#endif
}

void ComputeFlags::add_to(CLI::App* command) {
  command
      ->add_option("--precision", precision,
                   "Matrix products: f32, bf16, or auto (bf16 where the CPU has it)")
      ->check(CLI::IsMember({"auto", "f32", "bf16"}));
  command->add_option("--threads", threads, "Threads; 0: one per core")->check(CLI::Range(0, 256));
}

at::ScalarType ComputeFlags::apply() const {
  at::set_num_threads(threads > 0 ? threads : usable_processors());
  const bool bf16 = precision == "bf16" || (precision == "auto" && cpu_has_bf16());
  log(LogLevel::kInfo, "libtorch",
      {{"precision", bf16 ? "bf16" : "f32"}, {"threads", at::get_num_threads()}});
  return bf16 ? at::kBFloat16 : at::kFloat;
}

void DataFlags::add_to(CLI::App* command) {
  command->add_option("--data", data, "JSONL of prompts and answers, both learnt; FILE[=SHARE]");
  command->add_option("--answers", answers, "JSONL whose answers alone are learnt; FILE[=SHARE]");
  command->add_option("--held-out", held_out, "JSONL to measure on, never trained on");
  command->add_option("--chat-template", chat_template,
                      "Family of the turns' template [the tokenizer's own]");
}

double product_rate(at::ScalarType compute) {
  constexpr std::int64_t kRows = 1024, kWidth = 1024;
  const at::Tensor x = at::ones({kRows, kWidth}, compute), w = at::ones({kWidth, kWidth}, compute);
  at::linear(x, w);
  const SystemClock clock;
  const TimePoint begin = clock.now();
  for (int i = 0; i < 4; ++i) at::linear(x, w);
  return 4.0 * kRows * kWidth * kWidth / to_seconds(clock.now() - begin);
}

void add_run_flags(CLI::App* command, RunOptions& options) {
  add_out(command, options.out, "The run's directory");
  command->add_option("--steps", options.optimizer.total_steps, "Steps of the whole schedule")
      ->check(CLI::PositiveNumber);
  command->add_option("--stop-after", options.stop_after, "Stop after this many steps of this run");
  command->add_option("--warmup", options.optimizer.warmup_steps, "Steps of warm-up")
      ->check(CLI::PositiveNumber);
  command->add_option("--learning-rate", options.optimizer.learning_rate, "At its peak");
  command->add_option("--weight-decay", options.optimizer.weight_decay, "Of matrices");
  command->add_option("--clip", options.optimizer.max_gradient_norm, "Largest gradient norm");
  command->add_option("--evaluate-every", options.evaluate_every, "Steps between measurements")
      ->check(CLI::PositiveNumber);
  command->add_option("--checkpoint-every", options.checkpoint_every, "Steps between checkpoints")
      ->check(CLI::PositiveNumber);
  command->add_option("--seed", options.seed, "Seed of weights, order and draws");
  command->add_flag("--resume", options.resume, "Resume the run in --out");
}

Result<TrainData> load_train_data(const DataFlags& flags, const Tokenizer& tokenizer,
                                  bool answers_only) {
  OUTRIDER_ASSIGN_OR_RETURN(ChatTemplate chat,
                            ChatTemplate::choose(tokenizer, flags.chat_template));
  const TurnFormat format{tokenizer, std::move(chat)};
  TrainData data;
  for (const std::string& path : flags.data) {
    OUTRIDER_ASSIGN_OR_RETURN(Source source, load_source(path, format, answers_only));
    data.sources.push_back(std::move(source));
  }
  for (const std::string& path : flags.answers) {
    OUTRIDER_ASSIGN_OR_RETURN(Source source, load_source(path, format, true));
    data.sources.push_back(std::move(source));
  }
  if (data.sources.empty()) {
    return invalid_argument("nothing to learn from. Remedy: --data FILE or --answers FILE");
  }
  for (const Source& source : data.sources) {
    std::int64_t tokens = 0;
    for (const Document& document : source.documents) {
      tokens += static_cast<std::int64_t>(document.tokens.size());
    }
    log(LogLevel::kInfo, "source",
        {{"path", source.path},
         {"documents", source.documents.size()},
         {"tokens", tokens},
         {"share", source.share}});
  }
  for (const std::string& path : flags.held_out) {
    OUTRIDER_ASSIGN_OR_RETURN(Source source, load_source(path, format, true));
    data.held_out.push_back({std::filesystem::path(path).stem(), std::move(source.documents)});
  }
  OUTRIDER_ASSIGN_OR_RETURN(data.end_of_turn, format.chat.end_of_turn(tokenizer));
  data.end_of_text = tokenizer.find("<|endoftext|>").value_or(data.end_of_turn);
  return data;
}

}  // namespace outrider
