// outrider-train data-robot, data-gsm8k, data-mbpp, data-turns, data-wikitext: text as JSONL.
// outrider-train tokenizer: a byte-level BPE vocabulary. outrider-train plot: a run's losses.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>

#include "adapters/commands/commands.h"
#include "adapters/data/prompt_sets.h"
#include "adapters/data/robot_text.h"
#include "adapters/plot/line_plot.h"
#include "adapters/tokenizer/bpe_trainer.h"
#include "adapters/train/run_files.h"
#include "common/base/files.h"
#include "common/base/jsonl.h"
#include "common/serving/cli/choice.h"

namespace outrider {
namespace {

struct DataFlags {
  std::uint64_t seed = 1;
  std::uint64_t count = 1000;
  std::string split = "train";
  std::string task = "act";
  std::vector<MbppForm> forms = {MbppForm::kComplete};
  std::string in, out;

  Split which() const { return split == "train" ? Split::kTrain : Split::kHeldOut; }
};

Status write_robot(const DataFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(JsonlFile file, JsonlFile::create(flags.out));
  for (std::uint64_t i = 0; i < flags.count; ++i) {
    const RobotExample example = flags.task == "report"
                                     ? make_robot_report(flags.seed, i)
                                     : make_robot_example(flags.seed, i, flags.which());
    file.write(
        {{"prompt", example.prompt}, {"answer", example.answer}, {"action", example.action}});
  }
  return file.close();
}

Status write_gsm8k(const DataFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PromptAnswer> problems,
                            read_gsm8k(flags.in, flags.which()));
  OUTRIDER_ASSIGN_OR_RETURN(JsonlFile file, JsonlFile::create(flags.out));
  for (const PromptAnswer& problem : problems) {
    file.write({{"prompt", problem.prompt}, {"answer", problem.answer}});
  }
  return file.close();
}

Status write_mbpp(const DataFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PromptAnswer> tasks,
                            read_mbpp(flags.in, flags.forms));
  OUTRIDER_ASSIGN_OR_RETURN(JsonlFile file, JsonlFile::create(flags.out));
  for (const PromptAnswer& task : tasks) {
    file.write({{"prompt", task.prompt}, {"answer", task.answer}});
  }
  return file.close();
}

// One text a line, under `field`.
Status write_texts(const DataFlags& flags, const char* field,
                   const Result<std::vector<std::string>>& texts) {
  OUTRIDER_RETURN_IF_ERROR(texts.status());
  OUTRIDER_ASSIGN_OR_RETURN(JsonlFile file, JsonlFile::create(flags.out));
  for (const std::string& text : *texts) file.write({{field, text}});
  return file.close();
}

void add_split_and_out(CLI::App* command, DataFlags& flags) {
  command->add_option("--split", flags.split, "train, or heldout: what training never sees")
      ->check(CLI::IsMember({"train", "heldout"}));
  add_out(command, flags.out, "The JSONL file to write");
}

void add_prompt_sets(CommandList& commands) {
  const auto add = [&](const std::string& name, const std::string& help, const auto& run) {
    const auto flags = std::make_shared<DataFlags>();
    CLI::App* command = commands.add(name, help, [flags, run] { return run(*flags); });
    command->add_option("--in", flags->in, "The file as it was published")->required();
    add_out(command, flags->out, "The JSONL file to write");
    return std::pair(command, flags);
  };
  const auto [mbpp, mbpp_flags] = add("data-mbpp", "Convert MBPP's tasks", write_mbpp);
  add_choice(*mbpp, "--form", mbpp_flags->forms,
             "The part of a task that a prompt shows: the function's head, what it does, its "
             "tests; of several forms each task has all");
  add("data-turns", "Convert the first user turns of OASST or MT-bench: prompts without answers",
      [](const DataFlags& flags) {
        return write_texts(flags, "prompt", read_user_turns(flags.in));
      });
  add("data-wikitext", "Convert Wikitext's articles: plain text",
      [](const DataFlags& flags) { return write_texts(flags, "text", read_wikitext(flags.in)); });
}

struct TokenizerFlags {
  std::vector<std::string> data, text;
  std::int32_t vocab_size = 4096;
  std::int64_t max_length = 1024;
  std::string out;
};

// How tokenizer_json() and tokenizer_config_json() begin.
constexpr OutputKind kTokenizerFile{
    .name = "a tokenizer that Outrider made", .is_earlier = [](std::string_view content) {
      return content.starts_with("{\n \"version\": \"1.0\",") ||
             content.starts_with("{\n \"tokenizer_class\": \"PreTrainedTokenizerFast\",");
    }};

Status make_tokenizer(const TokenizerFlags& flags) {
  std::vector<std::string> texts;
  const auto add = [&](const Json& line, const std::string& where) -> Status {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, string_field(line, "prompt", where));
    OUTRIDER_ASSIGN_OR_RETURN(const std::string answer, string_field(line, "answer", where));
    // The same words stand behind a chat template's tags.
    texts.push_back("user\n" + prompt);
    texts.push_back("assistant\n" + answer);
    return {};
  };
  for (const std::string& path : flags.data) OUTRIDER_RETURN_IF_ERROR(for_each_line(path, add));
  for (const std::string& path : flags.text) {
    OUTRIDER_ASSIGN_OR_RETURN(std::string text, read_file(path, std::int64_t{1} << 28));
    texts.push_back(std::move(text));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const TrainedBpe bpe, train_bpe(texts, flags.vocab_size));
  std::error_code error;
  std::filesystem::create_directories(flags.out, error);
  const std::string tokenizer = flags.out + "/tokenizer.json";
  const std::string config = flags.out + "/tokenizer_config.json";
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(config, kTokenizerFile));
  OUTRIDER_RETURN_IF_ERROR(write_output(tokenizer, kTokenizerFile, tokenizer_json(bpe)));
  const auto vocab = static_cast<std::int32_t>(bpe.pieces.size()) + kNumSpecialTokens;
  return write_output(config, kTokenizerFile, tokenizer_config_json(vocab, flags.max_length));
}

}  // namespace

void add_data_commands(CommandList& commands) {
  const auto robot = std::make_shared<DataFlags>();
  CLI::App* command = commands.add("data-robot", "Write robot scenes with instructions and answers",
                                   [robot] { return write_robot(*robot); });
  command->add_option("--seed", robot->seed, "Seed");
  command->add_option("--count", robot->count, "Examples")->check(CLI::Range(1, 100'000'000));
  command
      ->add_option("--task", robot->task,
                   "act: follow an instruction; report: say where things are (training only)")
      ->check(CLI::IsMember({"act", "report"}));
  add_split_and_out(command, *robot);

  const auto gsm8k = std::make_shared<DataFlags>();
  command = commands.add("data-gsm8k", "Convert GSM8K's train.jsonl; its last 300 are held out",
                         [gsm8k] { return write_gsm8k(*gsm8k); });
  command->add_option("--in", gsm8k->in, "GSM8K's train.jsonl")->required();
  add_split_and_out(command, *gsm8k);
  add_prompt_sets(commands);
}

void add_tokenizer_command(CommandList& commands) {
  const auto flags = std::make_shared<TokenizerFlags>();
  CLI::App* command = commands.add("tokenizer", "Learn a byte-level BPE vocabulary",
                                   [flags] { return make_tokenizer(*flags); });
  command->add_option("--data", flags->data, "JSONL files of prompts and answers")
      ->check(CLI::ExistingFile);
  command->add_option("--text", flags->text, "Plain text files")->check(CLI::ExistingFile);
  command->add_option("--vocab-size", flags->vocab_size, "Entries, the 3 special tokens included");
  command->add_option("--max-length", flags->max_length, "model_max_length to write");
  add_out(command, flags->out, "The directory to write");
}

void add_plot_command(CommandList& commands) {
  struct Flags {
    std::string metrics, title = "run", out;
  };
  const auto flags = std::make_shared<Flags>();
  const auto run = [flags]() -> Status {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<StepMetrics> metrics, read_metrics(flags->metrics));
    return write_output(flags->out, kPlotFile, loss_plot_svg(metrics, flags->title));
  };
  CLI::App* command = commands.add("plot", "Draw the losses of a run", run);
  command->add_option("--metrics", flags->metrics, "A run's metrics.jsonl")->required();
  command->add_option("--title", flags->title, "The picture's title");
  add_out(command, flags->out, "The SVG to write");
}

}  // namespace outrider
