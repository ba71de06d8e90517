// outrider-train exits. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>

#include "adapters/commands/commands.h"
#include "adapters/commands/torch_flags.h"
#include "adapters/data/progress.h"
#include "adapters/exits/exit_trainer.h"
#include "adapters/exits/label_exit_trainer.h"
#include "adapters/exits/measure.h"
#include "adapters/labels/label_files.h"
#include "adapters/plot/line_plot.h"
#include "common/base/jsonl.h"
#include "common/engine/model/loader/loader.h"
#include "common/serving/conversation/chat_template.h"
#include "common/serving/telemetry/log.h"

namespace outrider {
namespace {

struct ExitFlags {
  std::string target, draft, labels, loss = "kl", dtype = "auto";
  std::vector<std::int32_t> layers;
  std::int64_t shortlist = 8192;
  std::int64_t prompts = 60;
  DataFlags data;
  ComputeFlags compute;
  ExitTrainOptions options;
  MeasureOptions measure;

  void add_to(CLI::App* command);
  void add_predictor(CLI::App* command);
  void add_training(CLI::App* command);
};

void ExitFlags::add_to(CLI::App* command) {
  command->add_option("--target", target, "Target: a directory or a GGUF file")->required();
  command
      ->add_option("--draft", draft,
                   "The target's draft, a directory or a GGUF file: without it exits cannot name "
                   "whole outcomes")
      ->required();
  command->add_option("--dtype", dtype,
                      "How the target is served: auto (as stored), f32, bf16, int8, int4");
  data.add_to(command);
  command->add_option("--labels", labels,
                      "Train on these labels of `outrider-train label --layers`, not on --data");
  CLI::Option* held_out = command->get_option("--held-out");
  held_out->description("JSONL that is not trained on: half of its prompts calibrate, half measure")
      ->required();
  command->add_option("--layers", layers, "Exits after these layers; default: after every one")
      ->delimiter(',');
  command->add_option("--bottleneck", options.bottleneck, "Width of an adapter")
      ->check(CLI::Range(1, 65536));
  command
      ->add_option("--shortlist", shortlist,
                   "Exits consider only this many of the most frequent tokens; 0: all")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--gamma", measure.gamma, "Drafted tokens per pass")
      ->check(CLI::Range(1, 31));
  command->add_option("--prompts", prompts, "Held-out prompts of each file and half")
      ->check(CLI::PositiveNumber);
  command->add_option("--max-tokens", measure.max_tokens, "Longest answer in calibration")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--chain-share", measure.chain_share,
                   "Time to draft a chain as a share of a pass's, for the choice of exits")
      ->check(CLI::Range(0.01, 100.0));
  command->add_option("--loss", loss, "ce: the text's next token; kl: the target's distribution")
      ->check(CLI::IsMember({"ce", "kl"}));
  options.optimizer.learning_rate = 3e-3;
  add_training(command);
}

void ExitFlags::add_predictor(CLI::App* command) {
  command->add_option("--target", target, "Target: a directory or a GGUF file")->required();
  command->add_option("--labels", labels, "Labels of `outrider-train label --layers`")->required();
  command
      ->add_option("--layers", layers,
                   "After this layer; default: of the labels' layers the one nearest to the middle")
      ->delimiter(',')
      ->expected(1);
  shortlist = 0;
  command
      ->add_option("--shortlist", shortlist,
                   "It considers only this many of the most frequent tokens; 0: all, as in LEVER")
      ->check(CLI::NonNegativeNumber);
  options.own_head = true;
  options.greedy_weight = 0;
  options.candidate_weight = 1;
  command
      ->add_option("--candidate-weight", options.candidate_weight,
                   "Weight of the loss among the teacher's likeliest tokens (LEVER, eq. 8)")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--kd-temperature", options.temperature,
                   "Of the loss over all tokens (LEVER, eq. 9)")
      ->check(CLI::Range(0.1, 100.0));
  command
      ->add_option("--candidate-temperature", options.candidate_temperature,
                   "Of the loss among the likeliest tokens (LEVER, eq. 10)")
      ->check(CLI::Range(0.1, 100.0));
  options.optimizer.learning_rate = 3e-4;
  add_training(command);
}

void ExitFlags::add_training(CLI::App* command) {
  options.optimizer.warmup_steps = 20;
  options.optimizer.total_steps = 400;
  options.optimizer.weight_decay = 0.01;
  command
      ->add_option("--greedy-weight", options.greedy_weight,
                   "With kl: weight of the target's likeliest token beside its distribution")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--rows", options.rows, "Smallest number of learnt tokens in a step")
      ->check(CLI::PositiveNumber);
  add_run_flags(command, options);
  compute.add_to(command);
}

Status check_layers(std::vector<std::int32_t>& layers, std::int32_t num_layers) {
  if (layers.empty()) {
    layers.resize(static_cast<std::size_t>(std::max(0, num_layers - 1)));
    std::iota(layers.begin(), layers.end(), 1);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] >= 1 && layers[i] < num_layers && (i == 0 || layers[i] > layers[i - 1])) continue;
    return invalid_argument("--layers: " + std::to_string(layers[i]) + " must be from 1 to " +
                            std::to_string(num_layers - 1) + " and larger than the one before");
  }
  return layers.empty() ? invalid_argument("--target: a model of one layer has no exits")
                        : Status();
}

// The most frequent tokens of the training text, and those that end an answer; empty: all.
std::vector<TokenId> shortlist_of(const std::vector<Source>& sources, const ModelInfo& target,
                                  std::int64_t size) {
  if (size == 0 || size >= target.vocab_size) return {};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(target.vocab_size));
  for (const Source& source : sources) {
    for (const Document& document : source.documents) {
      for (const TokenId token : document.tokens) ++counts[static_cast<std::size_t>(token)];
    }
  }
  for (const TokenId stop : target.stop_ids) counts[static_cast<std::size_t>(stop)] = 1LL << 60;
  std::vector<TokenId> tokens(counts.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::stable_sort(tokens.begin(), tokens.end(), [&](TokenId a, TokenId b) {
    return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
  });
  tokens.resize(static_cast<std::size_t>(size));
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

// Deals the prompts to the two halves in turn.
Result<ExitText> read_text(const std::string& path, const Tokenizer& tokenizer,
                           const ChatTemplate& chat, std::int64_t prompts) {
  ExitText text{.name = std::filesystem::path(path).stem(), .fit = {}, .measure = {}};
  const auto add = [&](const Json& line, const std::string& where) -> Status {
    auto& half = text.fit.size() > text.measure.size() ? text.measure : text.fit;
    if (static_cast<std::int64_t>(half.size()) >= prompts) return {};
    OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, string_field(line, "prompt", where));
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids,
                              chat.encode_chat(tokenizer, {{ChatRole::kUser, prompt}}));
    half.push_back(std::move(ids));
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(for_each_line(path, add));
  if (text.measure.empty()) return data_loss(path + " holds fewer than two prompts");
  return text;
}

Result<std::unique_ptr<Model>> load_runner(const std::string& directory, const std::string& dtype,
                                           int threads) {
  LoadOptions load;
  load.directory = directory;
  load.dtype = dtype;
  load.threads = threads;
  return load_model(load);
}

constexpr OutputKind kReportFile{
    .name = "a report of exits",
    .is_earlier = [](std::string_view content) { return content.starts_with("{\"chosen\":"); }};

// Calibrates, measures and chooses exits; writes the adapters and the report.
Status finish(const ExitFlags& flags, const Tokenizer& tokenizer, const ModelFiles& files,
              Model& target, ExitAdapters& adapters) {
  // Training is kept, and --resume comes back here.
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> draft,
                            load_runner(flags.draft, "auto", flags.compute.threads));
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat,
                            ChatTemplate::choose(tokenizer, flags.data.chat_template));
  std::vector<ExitText> texts;
  std::size_t prompts = 0;
  for (const std::string& path : flags.data.held_out) {
    OUTRIDER_ASSIGN_OR_RETURN(ExitText text, read_text(path, tokenizer, chat, flags.prompts));
    prompts += (2 * text.fit.size() + text.measure.size()) * flags.measure.temperatures.size();
    texts.push_back(std::move(text));
  }
  ProgressBar bar("replay", 0, static_cast<std::int64_t>(prompts));
  OUTRIDER_ASSIGN_OR_RETURN(const MeasureReport report,
                            measure_exits(adapters, target, files, *draft, texts, flags.measure,
                                          [&](std::int64_t done) { bar.show(done, "prompts"); }));
  OUTRIDER_RETURN_IF_ERROR(save_adapters(flags.options.out, adapters));
  const std::string& out = flags.options.out;
  OUTRIDER_RETURN_IF_ERROR(
      write_output(out + "/report.json", kReportFile, report_json(report) + "\n"));
  OUTRIDER_RETURN_IF_ERROR(
      write_output(out + "/reliability.svg", kPlotFile, reliability_svg(report)));
  OUTRIDER_RETURN_IF_ERROR(write_output(out + "/depth.svg", kPlotFile, depth_svg(report)));
  std::printf("%s\n", report_json(report).c_str());
  return {};
}

// The exits of the labels' layers. The target runs only to calibrate and measure them.
Result<ExitAdapters> train_from_labels(ExitFlags& flags, const ModelFiles& files,
                                       at::ScalarType compute) {
  if (flags.layers.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(const LabelIndex index, read_label_index(flags.labels));
    flags.options.layers = index.layers;
  }
  const auto size = flags.shortlist < files.config.vocab_size ? flags.shortlist : 0;
  std::vector<TokenId> tokens;
  if (size > 0) {
    OUTRIDER_ASSIGN_OR_RETURN(Shortlist list,
                              choose_shortlist(flags.labels, files.config.stop_ids, size));
    tokens = std::move(list.tokens);
  }
  OUTRIDER_ASSIGN_OR_RETURN(const ExitTrainCost cost,
                            label_exit_cost(flags.labels, flags.options, size));
  std::fprintf(stderr, "%lld steps: about %.2f hours, %.0f MB of memory\n",
               static_cast<long long>(flags.options.optimizer.total_steps),
               1.33 * cost.multiply_adds / product_rate(compute) / 3600, cost.bytes / 1e6);
  stop_on_signals();
  return train_exits_on_labels(flags.labels, files, compute, tokens, flags.options);
}

Result<ExitAdapters> train_from_text(ExitFlags& flags, const Tokenizer& tokenizer,
                                     const ModelFiles& files, Model& target,
                                     at::ScalarType compute) {
  OUTRIDER_ASSIGN_OR_RETURN(TrainData data, load_train_data(flags.data, tokenizer, false));
  std::vector<TokenId> shortlist = shortlist_of(data.sources, target.info(), flags.shortlist);
  stop_on_signals();
  OUTRIDER_ASSIGN_OR_RETURN(
      ExitAdapters adapters,
      train_exits(target, files, compute, std::move(data.sources), data.held_out, flags.options));
  adapters.shortlist = std::move(shortlist);
  return adapters;
}

Status run_exits(ExitFlags flags) {
  flags.options.loss = flags.loss == "ce" ? ExitLoss::kCrossEntropy : ExitLoss::kDivergence;
  flags.measure.seed = flags.options.seed;
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(flags.target));
  const at::ScalarType compute = flags.compute.apply();
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(flags.target, {}));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> target,
                            load_runner(flags.target, flags.dtype, flags.compute.threads));
  flags.options.layers = flags.layers;
  OUTRIDER_RETURN_IF_ERROR(check_layers(flags.options.layers, target->info().num_layers));
  OUTRIDER_ASSIGN_OR_RETURN(ExitAdapters adapters,
                            flags.labels.empty()
                                ? train_from_text(flags, tokenizer, *files, *target, compute)
                                : train_from_labels(flags, *files, compute));
  return finish(flags, tokenizer, *files, *target, adapters);
}

Result<std::int32_t> middle_layer(const std::string& labels, std::int32_t num_layers) {
  OUTRIDER_ASSIGN_OR_RETURN(const LabelIndex index, read_label_index(labels));
  if (index.layers.empty()) {
    return failed_precondition("--labels " + labels +
                               " keep no hidden states. Remedy: outrider-train label --layers " +
                               std::to_string(num_layers / 2));
  }
  return *std::ranges::min_element(
      index.layers, {}, [&](std::int32_t layer) { return std::abs(2 * layer - num_layers); });
}

Status run_predictor(ExitFlags flags) {
  const at::ScalarType compute = flags.compute.apply();
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(flags.target, {}));
  const std::int32_t num_layers = files->config.num_layers;
  if (flags.layers.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::int32_t layer, middle_layer(flags.labels, num_layers));
    flags.layers = {layer};
  }
  flags.options.layers = flags.layers;
  OUTRIDER_RETURN_IF_ERROR(check_layers(flags.options.layers, num_layers));
  OUTRIDER_ASSIGN_OR_RETURN(ExitAdapters predictor, train_from_labels(flags, *files, compute));
  predictor.chosen = flags.layers;
  return save_adapters(flags.options.out, predictor);
}

}  // namespace

void add_predictor_command(CommandList& commands) {
  const auto flags = std::make_shared<ExitFlags>();
  CLI::App* command =
      commands.add("predictor", "Train a linear predictor that prunes trees (LEVER, section 4.3)",
                   [flags] { return run_predictor(*flags); });
  flags->add_predictor(command);
}

void add_exits_command(CommandList& commands) {
  const auto flags = std::make_shared<ExitFlags>();
  CLI::App* command = commands.add("exits", "Train, calibrate and choose early exits of a target",
                                   [flags] { return run_exits(*flags); });
  flags->add_to(command);
}

}  // namespace outrider
