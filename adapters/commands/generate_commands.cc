// outrider-train generate, data-own, evaluate. SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include "adapters/answers/acceptance.h"
#include "adapters/answers/generate.h"
#include "adapters/commands/commands.h"
#include "adapters/data/progress.h"
#include "adapters/data/robot_text.h"
#include "common/base/jsonl.h"
#include "common/engine/model/loader/loader.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/conversation/chat_template.h"

namespace outrider {
namespace {

struct GenerateFlags {
  std::string draft, prompts, out;
  std::int64_t limit = 0;
  std::size_t count = 1000;
  int gamma = 4;
  LoadOptions load;
  GenerateOptions options;

  void add_to(CLI::App* command) {
    command->add_option("--prompts", prompts, "JSONL with one \"prompt\" per line")->required();
    command->add_option("--limit", limit, "Only the first N prompts; 0: all")
        ->check(CLI::NonNegativeNumber);
    add_generation(command);
  }
  void add_generation(CLI::App* command) {
    command->add_option("--model", load.directory, "Model: a directory or a GGUF file")->required();
    command->add_option("--max-tokens", options.max_tokens, "Longest answer")
        ->check(CLI::PositiveNumber);
    command->add_option("--batch", options.batch, "Prompts at once")->check(CLI::PositiveNumber);
    command->add_option("--dtype", load.dtype, "auto (as stored), f32, bf16, int8, int4");
    command->add_option("--threads", load.threads, "Threads; 0: one per core")
        ->check(CLI::Range(0, 256));
  }
};

// Prompts, the right actions as far as the file has them, and a model's answers.
struct Answers {
  std::vector<std::string> prompts, actions;  // actions: empty if the file has none
  std::vector<std::vector<TokenId>> prompt_ids, ids;
};

Status read_prompts(const GenerateFlags& flags, const Tokenizer& tokenizer, Answers& answers) {
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::choose(tokenizer, ""));
  const auto add = [&](const Json& line, const std::string& where) -> Status {
    if (flags.limit > 0 && static_cast<std::int64_t>(answers.prompts.size()) >= flags.limit) {
      return {};
    }
    OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, string_field(line, "prompt", where));
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids,
                              chat.encode_chat(tokenizer, {{ChatRole::kUser, prompt}}));
    answers.prompts.push_back(prompt);
    answers.prompt_ids.push_back(std::move(ids));
    const Result<std::string> action = string_field(line, "action", where);
    answers.actions.push_back(action.ok() ? *action : "");
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(for_each_line(flags.prompts, add));
  return answers.prompts.empty() ? data_loss(flags.prompts + " holds no prompts") : Status();
}

Result<Answers> answer_all(GenerateFlags& flags, const Tokenizer& tokenizer) {
  Answers answers;
  OUTRIDER_RETURN_IF_ERROR(read_prompts(flags, tokenizer, answers));
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::choose(tokenizer, ""));
  OUTRIDER_ASSIGN_OR_RETURN(flags.options.stop, chat.end_of_turn(tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, load_model(flags.load));
  ProgressBar bar("answer", 0, static_cast<std::int64_t>(answers.prompts.size()));
  OUTRIDER_ASSIGN_OR_RETURN(answers.ids, generate(*model, answers.prompt_ids, flags.options,
                                                  [&](std::int64_t done) { bar.show(done, ""); }));
  return answers;
}

Status run_generate(GenerateFlags& flags) {
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(flags.out, kTextsFile));
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(flags.load.directory));
  OUTRIDER_ASSIGN_OR_RETURN(const Answers answers, answer_all(flags, tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(JsonlFile file, JsonlFile::create(flags.out));
  for (std::size_t i = 0; i < answers.prompts.size(); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string text, tokenizer.decode(answers.ids[i]));
    file.write({{"prompt", answers.prompts[i]}, {"answer", text}});
  }
  return file.close();
}

Status run_own(GenerateFlags& flags) {
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(flags.out, kTextsFile));
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(flags.load.directory));
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::choose(tokenizer, ""));
  OUTRIDER_ASSIGN_OR_RETURN(flags.options.stop, chat.end_of_turn(tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> opening,
                            opening_of_user_turn(chat, tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, load_model(flags.load));
  const std::vector<std::vector<TokenId>> openings(flags.count, opening);
  ProgressBar bar("prompt", 0, static_cast<std::int64_t>(flags.count));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::vector<std::vector<TokenId>> written,
      generate(*model, openings, flags.options, [&](std::int64_t done) { bar.show(done, ""); }));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::string> messages,
                            messages_of(written, flags.options.max_tokens, tokenizer));
  if (messages.empty()) {
    return failed_precondition("--model " + flags.load.directory + " wrote no whole message in " +
                               std::to_string(flags.count) +
                               " attempts. Remedy: a chat model, more --count or --max-tokens");
  }
  OUTRIDER_ASSIGN_OR_RETURN(JsonlFile file, JsonlFile::create(flags.out));
  for (const std::string& message : messages) file.write({{"prompt", message}});
  return file.close();
}

// The answers as documents; only the answers' tokens count.
std::vector<Document> as_documents(const Answers& answers) {
  std::vector<Document> documents;
  for (std::size_t i = 0; i < answers.ids.size(); ++i) {
    Document document{answers.prompt_ids[i], {}};
    document.learnt.resize(document.tokens.size(), 0);
    document.tokens.insert(document.tokens.end(), answers.ids[i].begin(), answers.ids[i].end());
    document.learnt.resize(document.tokens.size(), 1);
    documents.push_back(std::move(document));
  }
  return documents;
}

Status run_evaluate(GenerateFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(flags.load.directory));
  OUTRIDER_ASSIGN_OR_RETURN(const Answers answers, answer_all(flags, tokenizer));
  nlohmann::ordered_json report = {{"prompts", answers.prompts.size()}};
  std::size_t asked = 0, right = 0, tokens = 0;
  for (std::size_t i = 0; i < answers.prompts.size(); ++i) {
    tokens += answers.ids[i].size();
    if (answers.actions[i].empty()) continue;
    OUTRIDER_ASSIGN_OR_RETURN(const std::string text, tokenizer.decode(answers.ids[i]));
    ++asked;
    right += action_in(text) == answers.actions[i] ? 1 : 0;
  }
  report["tokens"] = tokens;
  if (asked > 0) {
    report["action_accuracy"] = static_cast<double>(right) / static_cast<double>(asked);
  }
  if (!flags.draft.empty()) {
    LoadOptions load = flags.load;
    load.directory = flags.draft;
    load.dtype = "auto";
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> draft, load_model(load));
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::vector<bool>> hits,
                              greedy_hits(*draft, as_documents(answers)));
    report["gamma"] = flags.gamma;
    report["tokens_per_pass"] = tokens_per_pass(hits, flags.gamma);
  }
  std::printf("%s\n", report.dump().c_str());
  return {};
}

void add_draws(CLI::App* command, GenerateFlags& flags) {
  command->add_option("--temperature", flags.options.temperature, "0: the likeliest token")
      ->check(CLI::Range(0.0, 10.0));
  command->add_option("--seed", flags.options.seed, "Seed of the draws");
  add_out(command, flags.out, "The JSONL file to write");
}

void add_own(CommandList& commands) {
  const auto flags = std::make_shared<GenerateFlags>();
  flags->options.temperature = 1;
  CLI::App* command =
      commands.add("data-own", "Let a chat model write prompts: prompts without answers (Magpie)",
                   [flags] { return run_own(*flags); });
  flags->add_generation(command);
  command
      ->add_option("--count", flags->count,
                   "Prompts to attempt; broken and repeated ones are dropped")
      ->check(CLI::Range(1, 10'000'000));
  add_draws(command, *flags);
}

}  // namespace

void add_generate_commands(CommandList& commands) {
  const auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = commands.add("generate", "Write a model's answers to many prompts",
                                   [flags] { return run_generate(*flags); });
  flags->add_to(command);
  add_draws(command, *flags);
  add_own(commands);
}

void add_evaluate_command(CommandList& commands) {
  const auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command =
      commands.add("evaluate", "Greedy answers: right actions, and tokens per pass with a draft",
                   [flags] { return run_evaluate(*flags); });
  flags->add_to(command);
  command->add_option("--draft", flags->draft, "A draft of the same tokenizer");
  command->add_option("--gamma", flags->gamma, "Drafted tokens per pass")->check(CLI::Range(1, 64));
}

}  // namespace outrider
