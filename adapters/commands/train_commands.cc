// outrider-train pretrain, distill. SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdio>
#include <memory>

#include "adapters/commands/commands.h"
#include "adapters/commands/torch_flags.h"
#include "adapters/distill/label_trainer.h"
#include "adapters/shape/compose.h"
#include "adapters/train/model_io.h"
#include "adapters/train/trainer.h"
#include "common/serving/telemetry/log.h"

namespace outrider {
namespace {

// The flags that fix a model's shape; the vocabulary is the tokenizer's.
struct ShapeFlags {
  std::int32_t hidden = 320, ffn = 864, layers = 8, heads = 10, kv_heads = 5, head_dim = 32;
  std::int64_t context = 1024;

  void add_to(CLI::App* command) {
    command->add_option("--hidden", hidden, "Width of the residual stream");
    command->add_option("--ffn", ffn, "Width of the feed-forward layers");
    command->add_option("--layers", layers, "Layers");
    command->add_option("--heads", heads, "Attention heads");
    command->add_option("--kv-heads", kv_heads, "Key and value heads; divides --heads");
    command->add_option("--head-dim", head_dim, "Width of a head; even");
    command->add_option("--context", context, "max_position_embeddings");
  }

  // Built as a config.json and read back, so the checks of model directories apply.
  Result<ModelConfig> config(const Tokenizer& tokenizer, const TrainData& data) const {
    Json stop_ids = {data.end_of_turn};
    if (data.end_of_text != data.end_of_turn) stop_ids.push_back(data.end_of_text);
    const Json json = {{"model_type", "llama"},
                       {"architectures", {"LlamaForCausalLM"}},
                       {"hidden_act", "silu"},
                       {"vocab_size", tokenizer.vocab_size()},
                       {"hidden_size", hidden},
                       {"intermediate_size", ffn},
                       {"num_hidden_layers", layers},
                       {"num_attention_heads", heads},
                       {"num_key_value_heads", kv_heads},
                       {"head_dim", head_dim},
                       {"max_position_embeddings", context},
                       {"rms_norm_eps", 1e-5},
                       {"rope_theta", 10000.0},
                       {"tie_word_embeddings", true},
                       {"eos_token_id", stop_ids}};
    return parse_config(json.dump(), "the model's flags");
  }
};

struct TrainFlags {
  TrainOptions options;
  DataFlags data;
  ComputeFlags compute;
  ShapeFlags shape;
  std::string init;
  std::string target;
  double greedy_weight = 0.5;

  void add_to(CLI::App* command) {
    command->add_option("--init", init,
                        "Start from this model's weights and shape instead of random ones; with "
                        "--labels also prune:LAYERS of the target, as prune:0,1,29");
    data.add_to(command);
    add_run_flags(command, options);
    command->add_option("--batch", options.batch, "Sequences per step");
    command->add_option("--length", options.length, "Tokens per sequence");
    command->add_option("--long-every", options.long_every,
                        "Every N-th step has half as many sequences of twice the length; 0: never");
    compute.add_to(command);
    shape.add_to(command);
  }
};

struct LabelFlags {
  std::string labels, head_tokens;
  bool freeze_embedding = false;
  LabelTrainOptions options;

  void add_to(CLI::App* command) {
    command->add_option("--labels", labels,
                        "Train on these labels of `outrider-train label`, not on --data");
    command->add_option(
        "--head-tokens", head_tokens,
        "With --labels: the draft proposes only these tokens, of `outrider-train shortlist`");
    command->add_flag(
        "--freeze-embedding", freeze_embedding,
        "With --labels and --init DIRECTORY, a composed draft: train its layers only, "
        "as --init prune: does");
    command
        ->add_option("--step-tokens", options.tokens,
                     "With --labels: largest number of tokens per step")
        ->check(CLI::PositiveNumber);
    command
        ->add_option(
            "--patience", options.patience,
            "With --labels: end the run after this many measurements without a gain; 0: never")
        ->check(CLI::NonNegativeNumber);
  }
};

// The model to train: random weights in the flags' shape, or the model that --init names.
Result<Llama> first_model(const TrainFlags& flags, const Tokenizer& tokenizer,
                          const TrainData& data, at::ScalarType compute) {
  OUTRIDER_ASSIGN_OR_RETURN(const ModelConfig config, flags.shape.config(tokenizer, data));
  Llama model(config, compute, flags.options.seed);
  if (!flags.init.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(model, load_model(flags.init, compute));
    if (!model.config().head_tokens.empty()) {
      return unimplemented("--init " + flags.init +
                           " proposes a shortlist only, which text cannot train. Remedy: distill "
                           "--labels");
    }
    if (model.config().vocab_size != config.vocab_size) {
      return invalid_argument("--init " + flags.init + " has a vocabulary of " +
                              std::to_string(model.config().vocab_size) +
                              ", the tokenizer one of " + std::to_string(config.vocab_size) +
                              ". Remedy: the tokenizer that --init was trained with");
    }
  }
  log(LogLevel::kInfo, "model",
      {{"parameters", model.num_parameters()}, {"vocabulary", config.vocab_size}});
  return model;
}

Status pretrain(const TrainFlags& flags) {
  const TrainOptions& options = flags.options;
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(options.tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(TrainData data, load_train_data(flags.data, tokenizer, false));
  const at::ScalarType compute = flags.compute.apply();
  OUTRIDER_ASSIGN_OR_RETURN(Llama model, first_model(flags, tokenizer, data, compute));
  stop_on_signals();
  const auto loss = [&](const Batch& batch) { return next_token_loss(model, batch); };
  return train(model, Packer(std::move(data.sources), options.seed, data.end_of_text), loss,
               data.held_out, options);
}

// "prune:0,1,29" -> those layers; nothing if --init has another form.
Result<std::vector<std::int32_t>> pruned_layers(const std::string& init) {
  constexpr std::string_view kPrune = "prune:";
  std::vector<std::int32_t> layers;
  if (!init.starts_with(kPrune)) return layers;
  const char* at = init.data() + kPrune.size();
  const char* end = init.data() + init.size();
  while (true) {
    const auto [rest, error] = std::from_chars(at, end, layers.emplace_back());
    if (error != std::errc() || (rest != end && *rest != ',')) {
      return invalid_argument("--init " + init.substr(0, 60) +
                              ": must name layers of the target, as prune:0,1,29");
    }
    if (rest == end) return layers;
    at = rest + 1;
  }
}

// The draft that is trained on labels: layers of its target, or a model of its own.
Result<Llama> draft_for_labels(const TrainFlags& flags, const LabelFlags& labels,
                               at::ScalarType compute) {
  InitialModel init;
  OUTRIDER_ASSIGN_OR_RETURN(init.layers, pruned_layers(flags.init));
  if (!labels.head_tokens.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(init.head_tokens, read_head_tokens(labels.head_tokens));
  }
  if (flags.init.empty()) {
    return invalid_argument(
        "--labels: a draft has to start from a model. Remedy: --init prune:LAYERS of "
        "the target, or --init DIRECTORY");
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      Llama draft, load_model(init.layers.empty() ? flags.init : flags.target, compute, init));
  if (labels.options.frozen_embedding) draft.freeze_embedding();
  return draft;
}

void print_cost(const Llama& draft, const LabelTrainOptions& options) {
  // The backward pass costs twice the forward pass; work outside of products adds about a third.
  const double operations = 3 * 1.33 * static_cast<double>(multiply_adds_per_token(draft)) *
                            static_cast<double>(options.tokens * options.optimizer.total_steps);
  std::fprintf(stderr, "at most %lld steps of %lld tokens: about %.2f hours, %.0f MB of memory\n",
               static_cast<long long>(options.optimizer.total_steps),
               static_cast<long long>(options.tokens),
               operations / product_rate(draft.compute()) / 3600,
               static_cast<double>(label_training_bytes(draft, options)) / 1e6);
}

Status distill_labels(const TrainFlags& flags, LabelFlags& labels) {
  LabelTrainOptions& options = labels.options;
  static_cast<RunOptions&>(options) = flags.options;
  options.tokenizer = flags.target;
  options.greedy_weight = flags.greedy_weight;
  const at::ScalarType compute = flags.compute.apply();
  options.frozen_embedding = labels.freeze_embedding || flags.init.starts_with("prune:");
  OUTRIDER_ASSIGN_OR_RETURN(Llama draft, draft_for_labels(flags, labels, compute));
  OUTRIDER_ASSIGN_OR_RETURN(const LabelSet set,
                            LabelSet::load(labels.labels, draft.config().head_tokens));
  if (set.index().vocab_size != draft.config().vocab_size) {
    return invalid_argument("--labels " + labels.labels + " are of " +
                            std::to_string(set.index().vocab_size) + " tokens, the draft has " +
                            std::to_string(draft.config().vocab_size));
  }
  log(LogLevel::kInfo, "labels", {{"documents", set.size()}, {"top_k", set.index().top_k}});
  print_cost(draft, options);
  stop_on_signals();
  return train_on_labels(draft, set, options);
}

Status distill(TrainFlags flags, LabelFlags& labels) {
  if (!labels.labels.empty()) return distill_labels(flags, labels);
  if (!labels.head_tokens.empty() || labels.freeze_embedding || flags.init.starts_with("prune:")) {
    return invalid_argument(
        "--head-tokens, --freeze-embedding and --init prune: need the target's labels. Remedy: "
        "--labels DIRECTORY of `outrider-train label`");
  }
  TrainOptions& options = flags.options;
  options.tokenizer = flags.target;
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(options.tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(TrainData data, load_train_data(flags.data, tokenizer, false));
  const at::ScalarType compute = flags.compute.apply();
  OUTRIDER_ASSIGN_OR_RETURN(const Llama target, load_model(flags.target, compute));
  OUTRIDER_ASSIGN_OR_RETURN(Llama draft, first_model(flags, tokenizer, data, compute));
  stop_on_signals();
  const auto loss = [&](const Batch& batch) {
    return distillation_loss(draft, target, batch, flags.greedy_weight);
  };
  return train(draft, Packer(std::move(data.sources), options.seed, data.end_of_text), loss,
               data.held_out, options);
}

}  // namespace

void add_pretrain_command(CommandList& commands) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App* command =
      commands.add("pretrain", "Train a model on text", [flags] { return pretrain(*flags); });
  command
      ->add_option("--tokenizer", flags->options.tokenizer,
                   "Tokenizer: its directory or a GGUF file")
      ->required();
  flags->add_to(command);
}

void add_distill_command(CommandList& commands) {
  const auto flags = std::make_shared<TrainFlags>();
  flags->shape = {.hidden = 128, .ffn = 352, .layers = 3, .heads = 4, .kv_heads = 2};
  const auto labels = std::make_shared<LabelFlags>();
  CLI::App* command = commands.add("distill", "Train a draft to predict a target's text",
                                   [flags, labels] { return distill(*flags, *labels); });
  command->add_option("--target", flags->target, "Target: a directory or a GGUF file")->required();
  command
      ->add_option("--greedy-weight", flags->greedy_weight,
                   "Weight of the target's likeliest token beside its distribution")
      ->check(CLI::NonNegativeNumber);
  flags->add_to(command);
  labels->add_to(command);
}

}  // namespace outrider
