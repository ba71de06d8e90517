// outrider-train label, shortlist, compose. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>

#include "adapters/commands/commands.h"
#include "adapters/data/progress.h"
#include "adapters/exits/hidden_states.h"
#include "adapters/labels/label_files.h"
#include "adapters/labels/labeller.h"
#include "adapters/shape/compose.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/loader/loader.h"
#include "common/engine/text/tokenizer.h"

namespace outrider {
namespace {

volatile std::sig_atomic_t label_stop_wanted = 0;

struct LabelFlags {
  LoadOptions load;
  LabelText text;
  LabelOptions options;

  void add_to(CLI::App* command) {
    command->add_option("--model", load.directory, "Teacher: a directory or a GGUF file")
        ->required();
    command->add_option("--data", text.data, "JSONL of prompts and answers, both labelled");
    command->add_option("--answers", text.answers, "JSONL whose answers alone are labelled");
    command->add_option("--text", text.text, "JSONL of plain \"text\", labelled whole");
    command->add_option("--chat-template", text.chat_template, "Family of the turns' template");
    command->add_option("--max-length", text.longest, "Tokens of a document; the rest is cut off")
        ->check(CLI::Range(8, 1 << 20));
    command->add_option("--top-k", options.top_k, "Tokens kept of each distribution");
    command->add_option("--layers", options.layers, "Keep hidden states after these layers too")
        ->delimiter(',');
    command->add_option("--dtype", load.dtype, "Of the teacher: auto, f32, bf16, int8, int4");
    command->add_option("--threads", load.threads, "Threads; 0: one per core");
    add_out(command, options.out, "The directory; labels that it already holds are kept");
  }
};

// Times a few documents, to estimate the whole run before it starts.
Result<double> seconds_per_token(Model& teacher, const std::vector<Document>& documents) {
  OUTRIDER_ASSIGN_OR_RETURN(HiddenReader reader, HiddenReader::make(teacher, {}));
  const SystemClock clock;
  const TimePoint begin = clock.now();
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < documents.size() && tokens < 256; ++i) {
    HiddenBatch batch = reader.empty_batch();
    OUTRIDER_RETURN_IF_ERROR(reader.read(documents[i * 7919 % documents.size()], batch));
    tokens += std::ssize(documents[i * 7919 % documents.size()].tokens);
  }
  return to_seconds(clock.now() - begin) / static_cast<double>(std::max<std::int64_t>(1, tokens));
}

Status run_label(const LabelFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(flags.load.directory));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Document> documents,
                            read_label_text(tokenizer, flags.text));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> teacher, load_model(flags.load));
  const LabelCost cost = label_cost(teacher->info(), documents, flags.options);
  OUTRIDER_ASSIGN_OR_RETURN(const double seconds, seconds_per_token(*teacher, documents));
  std::fprintf(stderr,
               "%zu documents, %lld tokens, %lld to label: about %.2f hours, %.0f MB of memory "
               "beside the model, %.0f MB on disk\n",
               documents.size(), static_cast<long long>(cost.tokens),
               static_cast<long long>(cost.rows), static_cast<double>(cost.tokens) * seconds / 3600,
               static_cast<double>(cost.memory_bytes) / 1e6,
               static_cast<double>(cost.disk_bytes) / 1e6);
  for (const int signal : {SIGINT, SIGTERM}) {
    std::signal(signal, [](int) { label_stop_wanted = 1; });
  }
  ProgressBar bar("label", 0, cost.tokens);
  return label_documents(*teacher, documents, tokenizer.content_hash(), flags.options,
                         [&](std::int64_t tokens) -> Status {
                           bar.show(tokens, "tokens");
                           if (label_stop_wanted == 0) return {};
                           return cancelled("stopped; the same command resumes there");
                         });
}

constexpr OutputKind kShortlistFile{
    .name = "a list of tokens", .is_earlier = [](std::string_view content) {
      return content.starts_with("[") &&
             content.find_first_not_of("[0123456789,]\n") == std::string_view::npos;
    }};

struct ShortlistFlags {
  std::string labels, model, out;
  std::int64_t size = 8192;
};

Status run_shortlist(const ShortlistFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const LabelIndex index, read_label_index(flags.labels));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelConfig config, load_config(flags.model));
  if (config.vocab_size != index.vocab_size) {
    return invalid_argument("--model " + flags.model + " has " + std::to_string(config.vocab_size) +
                            " tokens, the labels' teacher " + std::to_string(index.vocab_size));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const Shortlist list,
                            choose_shortlist(flags.labels, config.stop_ids, flags.size));
  OUTRIDER_RETURN_IF_ERROR(
      write_output(flags.out, kShortlistFile, Json(list.tokens).dump() + "\n"));
  std::printf("%s\n",
              Json{{"tokens", list.tokens.size()}, {"covered", list.covered}}.dump().c_str());
  return {};
}

struct ComposeFlags {
  std::string target, layers, out;
};

}  // namespace

void add_label_commands(CommandList& commands) {
  const auto label = std::make_shared<LabelFlags>();
  label->add_to(commands.add("label",
                             "Store a teacher's likeliest tokens for a text, for distill and exits",
                             [label] { return run_label(*label); }));

  const auto shortlist = std::make_shared<ShortlistFlags>();
  CLI::App* command = commands.add("shortlist", "Choose the tokens that a draft may propose",
                                   [shortlist] { return run_shortlist(*shortlist); });
  command->add_option("--labels", shortlist->labels, "Labels of a text of the kind to be drafted")
      ->required();
  command->add_option("--model", shortlist->model, "The target: a directory or a GGUF file")
      ->required();
  command->add_option("--size", shortlist->size, "Tokens")->check(CLI::Range(1, 1 << 24));
  add_out(command, shortlist->out, "The JSON file to write");

  const auto compose = std::make_shared<ComposeFlags>();
  command = commands.add(
      "compose", "Make a draft of trained layers and its target's embedding",
      [compose] { return compose_draft(compose->target, compose->layers, compose->out); });
  command->add_option("--target", compose->target, "Target: a directory or a GGUF file")
      ->required();
  command->add_option("--layers", compose->layers, "Directory of config.json, layers.safetensors")
      ->required();
  add_out(command, compose->out, "The directory to write");
}

}  // namespace outrider
