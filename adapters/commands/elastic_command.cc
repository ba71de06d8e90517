// outrider-train elastic table. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>

#include "adapters/commands/commands.h"
#include "adapters/commands/torch_flags.h"
#include "adapters/data/progress.h"
#include "adapters/data/random.h"
#include "adapters/elastic/level_quality.h"
#include "adapters/elastic/level_widths.h"
#include "adapters/elastic/unit_importance.h"
#include "adapters/labels/labeller.h"
#include "adapters/train/model_io.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/loader/loader.h"
#include "common/engine/text/tokenizer.h"

namespace outrider {
namespace {

struct TableFlags {
  std::string model, out, dtype = "auto";
  LabelText text = {.longest = 256};
  LabelText held_out = {.longest = 256};
  std::vector<int> levels = {90, 80, 70, 60, 50, 40};  // % of the layers' weights, falling
  std::int64_t tokens = 16384, held_out_tokens = 4096;
  bool whole_groups = false, compare = false;
  ComputeFlags compute;

  void add_to(CLI::App* command) {
    command->add_option("--model", model, "A directory or a GGUF file")->required();
    add_out(command, out, "The table to write, MODEL/elastic.json");
    command->add_option("--data", text.data, "JSONL of prompts and answers, whose units count");
    command->add_option("--answers", text.answers, "The same; only the answers count");
    command->add_option("--text", text.text, "JSONL of plain \"text\"");
    command->add_option("--held-out", held_out.answers,
                        "JSONL of prompts and answers to measure on");
    command->add_option("--held-out-text", held_out.text, "JSONL of plain \"text\" to measure on");
    command->add_option("--levels", levels, "Sizes in % of the layers' weights, falling")
        ->delimiter(',')
        ->check(CLI::Range(1, 99));
    command->add_option("--tokens", tokens, "Tokens for the units' importance")
        ->check(CLI::Range(256, 1 << 24));
    command->add_option("--held-out-tokens", held_out_tokens, "Tokens to measure on")
        ->check(CLI::Range(256, 1 << 24));
    command->add_option("--dtype", dtype, "How levels are measured: auto, f32, bf16, int8, int4");
    command->add_flag(
        "--whole-groups", whole_groups,
        "Neurons move in groups of 32, so that a GGUF file's blocks stay as they are");
    command->add_flag("--compare", compare, "Measure random units and whole layers too");
    compute.add_to(command);
  }
};

// The first documents with about so many tokens.
std::vector<Document> first_tokens(std::vector<Document> documents, std::int64_t tokens) {
  std::size_t count = 0;
  for (; count < documents.size() && tokens > 0; ++count) {
    tokens -= std::ssize(documents[count].tokens);
  }
  documents.resize(count);
  return documents;
}

ElasticLevel level_of(const ModelConfig& config, std::string name,
                      std::vector<LayerWidths> widths) {
  std::map<std::string, std::int64_t> bytes = level_bytes(config, widths);
  return {.name = std::move(name), .layers = std::move(widths), .bytes = std::move(bytes)};
}

ElasticLevel full_level(const ModelConfig& config) {
  return level_of(
      config, "100",
      std::vector<LayerWidths>(static_cast<std::size_t>(config.num_layers), full_widths(config)));
}

constexpr OutputKind kTableFile{.name = "a table of levels",
                                .is_earlier = [](std::string_view content) {
                                  return content.starts_with("{\"version\": ") &&
                                         content.find("\"anchors\": ") != std::string_view::npos;
                                }};

Status write_table(const std::string& path, const ElasticTable& table) {
  return write_output(path, kTableFile, elastic_table_text(table)).with_context("--out");
}

// Measures one order of the units of a model.
class Measuring final {
 public:
  // Writes the order as a table of the full level alone, and loads the model by it.
  static Result<Measuring> start(const TableFlags& flags, const ModelFiles& files,
                                 std::vector<LayerOrder> order, const std::string& path) {
    ElasticTable table{.model = files.fingerprint,
                       .anchors = {},
                       .order = std::move(order),
                       .levels = {full_level(files.config)}};
    OUTRIDER_RETURN_IF_ERROR(write_table(path, table));
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                              load_model({.directory = flags.model,
                                          .dtype = flags.dtype,
                                          .threads = flags.compute.threads,
                                          .elastic = path}));
    return Measuring(std::move(table), std::move(model));
  }

  Result<std::vector<LevelQuality>> measure(const std::string& what,
                                            std::span<const ElasticLevel> levels,
                                            const std::vector<Document>& documents) {
    ProgressBar bar(what, 0, std::ssize(documents));
    return measure_levels(*model_, levels, documents,
                          [&](std::int64_t done) { bar.show(done, "documents"); });
  }

  ElasticTable& table() { return table_; }

 private:
  Measuring(ElasticTable table, std::unique_ptr<Model> model)
      : table_(std::move(table)), model_(std::move(model)) {}

  ElasticTable table_;
  std::unique_ptr<Model> model_;
};

// Each within the one before.
std::vector<ElasticLevel> levels_of(const WidthsInput& input, Sharing sharing,
                                    const std::vector<int>& percents) {
  std::vector<ElasticLevel> levels;
  std::vector<LayerWidths> widths = full_level(input.config).layers;
  for (const int percent : percents) {
    widths = narrow(input, sharing, percent / 100.0, std::move(widths));
    levels.push_back(level_of(input.config, std::to_string(percent), widths));
  }
  return levels;
}

void print_level(const std::string& sharing, ElasticLevel& level, const LevelQuality& quality) {
  level.divergence = quality.divergence;
  level.agreement = quality.agreement;
  std::printf("%s\n", Json{{"sharing", sharing},
                           {"level", level.name},
                           {"perplexity", std::exp(quality.loss)},
                           {"divergence", quality.divergence},
                           {"agreement", quality.agreement},
                           {"bytes", level.bytes}}
                          .dump()
                          .c_str());
}

// Levels, each within the one before.
struct Chain {
  std::vector<ElasticLevel> levels = {};
  std::vector<LayerWidths> widths;  // of the last one
  std::string ways = {};            // in which they were narrowed
  double distance = 0;              // the logarithms of their divergences
};

// In nats: levels that are nearer to the full model differ by no more than the measured text.
constexpr double kNear = 1e-3;
// So many chains go on: what is nearest now need not lead to what is nearest later.
constexpr std::size_t kChains = 4;

// Each chain, gone on with in each way. Of those that come to the same widths the nearest one goes
// on: how far it is from there depends on them alone.
std::vector<Chain> next_chains(const WidthsInput& input, const std::vector<Chain>& chains,
                               double share) {
  std::vector<Chain> next;
  for (const Chain& chain : chains) {
    for (const auto& [sharing, name] : enum_names<Sharing>) {
      Chain way = chain;
      way.widths = narrow(input, sharing, share, chain.widths);
      way.ways += (chain.ways.empty() ? "" : ", ") + std::string(name);
      if (std::ranges::find(next, way.widths, &Chain::widths) == next.end()) {
        next.push_back(std::move(way));
      }
    }
  }
  return next;
}

// Goes on to this share of the weights: the chains that are nearest so far.
Status narrow_chains(const WidthsInput& input, double share, Measuring& measuring,
                     const std::vector<Document>& documents, std::vector<Chain>& chains) {
  chains = next_chains(input, chains, share);
  const std::string name = std::to_string(std::lround(100 * share));
  std::vector<ElasticLevel> levels;
  for (const Chain& chain : chains) levels.push_back(level_of(input.config, name, chain.widths));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<LevelQuality> qualities,
                            measuring.measure("level " + name, levels, documents));
  for (std::size_t i = 0; i < chains.size(); ++i) {
    print_level(chains[i].ways, levels[i], qualities[i]);
    chains[i].distance += std::log(std::max(qualities[i].divergence, kNear));
    chains[i].levels.push_back(std::move(levels[i]));
  }
  std::ranges::stable_sort(chains, {}, &Chain::distance);
  chains.resize(std::min(chains.size(), kChains));
  return {};
}

// The levels that are nearest to the full model, as measured. A level half way to the next one lets
// what goes to it go in two ways.
Result<std::vector<ElasticLevel>> choose_levels(const WidthsInput& input,
                                                const std::vector<int>& percents,
                                                Measuring& measuring,
                                                const std::vector<Document>& documents) {
  std::vector<Chain> chains = {{.widths = full_level(input.config).layers}};
  double larger = 1;
  for (const int percent : percents) {
    const double share = percent / 100.0;
    for (const double step : {(larger + share) / 2, share}) {
      OUTRIDER_RETURN_IF_ERROR(narrow_chains(input, step, measuring, documents, chains));
    }
    larger = share;
  }
  std::vector<ElasticLevel>& levels = chains.front().levels;
  for (std::size_t i = 0; i < percents.size(); ++i) levels[i] = std::move(levels[2 * i + 1]);
  levels.resize(percents.size());
  return std::move(levels);
}

// By how much the loss rises without each layer.
Result<std::vector<double>> measure_layers(Measuring& measuring, const ModelConfig& config,
                                           const std::vector<Document>& documents) {
  std::vector<ElasticLevel> levels = {full_level(config)};
  for (std::int32_t i = 0; i < config.num_layers; ++i) {
    ElasticLevel without = full_level(config);
    without.layers[static_cast<std::size_t>(i)] = {0, 0};
    levels.push_back(std::move(without));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<LevelQuality> qualities,
                            measuring.measure("layers", levels, documents));
  print_level("full", levels[0], qualities[0]);
  std::vector<double> rises;
  for (std::size_t i = 1; i < qualities.size(); ++i) {
    rises.push_back(qualities[i].loss - qualities[0].loss);
  }
  return rises;
}

// Importance in the order of the table.
std::vector<LayerImportance> in_order(const std::vector<LayerImportance>& importance,
                                      const std::vector<LayerOrder>& order) {
  std::vector<LayerImportance> moved(importance.size());
  for (std::size_t i = 0; i < importance.size(); ++i) {
    for (const std::int32_t unit : order[i].neurons) {
      moved[i].neurons.push_back(importance[i].neurons[static_cast<std::size_t>(unit)]);
    }
    for (const std::int32_t unit : order[i].kv_groups) {
      moved[i].kv_groups.push_back(importance[i].kv_groups[static_cast<std::size_t>(unit)]);
    }
  }
  return moved;
}

// Importance of no meaning: a random order.
std::vector<LayerImportance> drawn_importance(std::vector<LayerImportance> importance) {
  SplitMix64 random(32);
  for (LayerImportance& layer : importance) {
    for (auto* values : {&layer.neurons, &layer.kv_groups}) {
      for (double& value : *values) value = static_cast<double>(random.next() >> 11);
    }
  }
  return importance;
}

Status compare(const TableFlags& flags, const ModelFiles& files, const WidthsInput& input,
               Measuring& measuring, const std::vector<Document>& documents) {
  std::vector<ElasticLevel> layers = levels_of(input, Sharing::kWholeLayers, flags.levels);
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<LevelQuality> qualities,
                            measuring.measure("whole layers", layers, documents));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    print_level("whole-layers", layers[i], qualities[i]);
  }
  const std::vector<LayerOrder> order = order_by_importance(drawn_importance(input.importance), 1);
  const std::string path = flags.out + ".random";
  OUTRIDER_ASSIGN_OR_RETURN(Measuring random, Measuring::start(flags, files, order, path));
  std::filesystem::remove(path);
  std::vector<ElasticLevel> even = levels_of(input, Sharing::kEven, flags.levels);
  OUTRIDER_ASSIGN_OR_RETURN(qualities, random.measure("random units", even, documents));
  for (std::size_t i = 0; i < even.size(); ++i) {
    print_level("random-units", even[i], qualities[i]);
  }
  return {};
}

Result<std::vector<LayerImportance>> importance_of(const TableFlags& flags,
                                                   const std::vector<Document>& documents) {
  OUTRIDER_ASSIGN_OR_RETURN(const Llama model, load_model(flags.model, flags.compute.apply()));
  std::int64_t tokens = 0;
  for (const Document& document : documents) tokens += std::ssize(document.tokens);
  ProgressBar bar("importance", 0, tokens);
  return unit_importance(model, documents, [&](std::int64_t done) { bar.show(done, "tokens"); });
}

Status make_table(TableFlags flags) {
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(flags.out, kTableFile));
  std::ranges::sort(flags.levels, std::ranges::greater());
  flags.levels.erase(std::ranges::unique(flags.levels).begin(), flags.levels.end());
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(flags.model, {}));
  OUTRIDER_RETURN_IF_ERROR(check_elastic(files->config));
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(flags.model));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<Document> documents,
                            read_label_text(tokenizer, flags.text));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<Document> held_out,
                            read_label_text(tokenizer, flags.held_out));
  held_out = first_tokens(std::move(held_out), flags.held_out_tokens);
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<LayerImportance> importance,
                            importance_of(flags, first_tokens(std::move(documents), flags.tokens)));
  const std::vector<LayerOrder> order =
      order_by_importance(importance, flags.whole_groups ? kElasticGroup : 1);
  OUTRIDER_ASSIGN_OR_RETURN(Measuring measuring, Measuring::start(flags, *files, order, flags.out));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> layer_loss,
                            measure_layers(measuring, files->config, held_out));
  const WidthsInput input{.config = files->config,
                          .importance = in_order(importance, order),
                          .layer_loss = layer_loss,
                          .anchors = choose_anchors(layer_loss)};
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<ElasticLevel> levels,
                            choose_levels(input, flags.levels, measuring, held_out));
  ElasticTable& table = measuring.table();
  table.anchors = input.anchors;
  table.levels.insert(table.levels.end(), levels.begin(), levels.end());
  OUTRIDER_RETURN_IF_ERROR(write_table(flags.out, table));
  OUTRIDER_RETURN_IF_ERROR(
      read_elastic_table(flags.out, files->config, files->fingerprint).status());
  return flags.compare ? compare(flags, *files, input, measuring, held_out) : Status();
}

}  // namespace

void add_elastic_commands(CommandList& commands) {
  const auto nested = std::make_shared<std::unique_ptr<CommandList>>();
  CLI::App* elastic = commands.add("elastic", "Make level tables: smaller models within a model",
                                   [nested] { return (*nested)->run_chosen(); });
  *nested = std::make_unique<CommandList>(*elastic);
  elastic->require_subcommand(1);
  const auto flags = std::make_shared<TableFlags>();
  CLI::App* table = (*nested)->add("table", "Order a model's units and measure its levels",
                                   [flags] { return make_table(*flags); });
  table->fallthrough();  // so that --config and --log-level may follow it, as other commands
  flags->add_to(table);
}

}  // namespace outrider
