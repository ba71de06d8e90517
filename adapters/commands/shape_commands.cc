// outrider-train init, inflate: models for benchmarks. outrider-train cut-exits: some of trained
// exits. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "adapters/commands/commands.h"
#include "adapters/data/progress.h"
#include "adapters/shape/inflate.h"
#include "common/decoding/exits/adapters.h"

namespace outrider {
namespace {

struct ShapeFlags {
  InitOptions init;
  std::string dtype = "bf16";
  std::string model, out;
  std::int64_t to_bytes = 0;
};

// Counts in millions of elements.
class WriteBar final {
 public:
  WriteProgress progress() {
    return [this](std::int64_t done, std::int64_t total) {
      constexpr std::int64_t kMillion = 1'000'000;
      if (!bar_) {
        bar_ =
            std::make_unique<ProgressBar>("write", 0, std::max<std::int64_t>(1, total / kMillion));
      }
      bar_->show(done / kMillion, "million weights");
    };
  }

 private:
  std::unique_ptr<ProgressBar> bar_;
};

struct CutFlags {
  std::string exits, layers = "all", chosen, out;
};

// The exits after some layers, with the weights and measurements that they have.
Status cut_exits(const CutFlags& flags) {
  std::error_code error;
  if (std::filesystem::equivalent(flags.exits, flags.out, error)) {
    return invalid_argument("--out " + flags.out +
                            ": is --exits, whose files would be lost. Remedy: another directory");
  }
  OUTRIDER_ASSIGN_OR_RETURN(ExitAdapters trained, load_adapters(flags.exits));
  const std::vector<std::int32_t> chosen = trained.chosen;
  OUTRIDER_ASSIGN_OR_RETURN(ExitAdapters cut, select_exits(std::move(trained), flags.layers));
  cut.chosen.clear();
  for (const std::int32_t layer : chosen) {
    if (std::ranges::count(cut.exits, layer, &ExitAdapter::layer) > 0) cut.chosen.push_back(layer);
  }
  if (!flags.chosen.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(ExitAdapters named, select_exits(cut, flags.chosen));
    cut.chosen = std::move(named.chosen);
  }
  if (cut.chosen.empty()) {
    return invalid_argument("--layers " + flags.layers +
                            ": none of those that auto takes stays. Remedy: --chosen names others");
  }
  return save_adapters(flags.out, cut);
}

void add_cut_command(CommandList& commands) {
  const auto flags = std::make_shared<CutFlags>();
  CLI::App* command = commands.add("cut-exits", "Write some of a target's trained exits",
                                   [flags] { return cut_exits(*flags); });
  command->add_option("--exits", flags->exits, "The directory of adapters.json")->required();
  command->add_option(
      "--layers", flags->layers,
      "The exits to keep: their layers, as 16,20,24; all; or auto, the chosen ones");
  command->add_option(
      "--chosen", flags->chosen,
      "The kept exits that --exits auto takes [those of the trained ones that are kept]");
  add_out(command, flags->out, "The directory to write");
}

}  // namespace

void add_shape_commands(CommandList& commands) {
  const auto flags = std::make_shared<ShapeFlags>();
  CLI::App* init = commands.add("init", "Write a random model in a published shape", [flags] {
    const std::map<std::string, DType> dtypes = {
        {"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}};
    flags->init.dtype = dtypes.at(flags->dtype);
    WriteBar bar;
    return init_model(flags->init, flags->out, bar.progress());
  });
  init->add_option("--like", flags->init.like, "The shape's name")
      ->required()
      ->check(CLI::IsMember(known_shape_names()));
  init->add_option("--layers", flags->init.layers, "Layers, if not as published");
  init->add_option("--dtype", flags->dtype, "f32, f16 or bf16")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
  init->add_option("--seed", flags->init.seed, "Seed");
  add_out(init, flags->out, "The directory to write");

  CLI::App* inflate_command =
      commands.add("inflate", "Write a model as a larger one with the same logits", [flags] {
        WriteBar bar;
        return inflate(flags->model, flags->to_bytes, flags->out, bar.progress());
      });
  inflate_command->add_option("--model", flags->model, "Model: a directory or a GGUF file")
      ->required();
  inflate_command->add_option("--to-bytes", flags->to_bytes, "Bytes of weights, at least")
      ->required()
      ->transform(CLI::AsSizeValue(false));
  add_out(inflate_command, flags->out, "The directory to write");
  add_cut_command(commands);
}

}  // namespace outrider
