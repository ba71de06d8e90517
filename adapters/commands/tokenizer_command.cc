// outrider-train tokenizer: a byte-level BPE vocabulary from text.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <memory>

#include "adapters/commands/commands.h"
#include "adapters/tokenizer/bpe_trainer.h"
#include "common/base/files.h"
#include "common/base/jsonl.h"

namespace outrider {
namespace {

struct TokenizerFlags {
  std::vector<std::string> data, text;
  std::int32_t vocab_size = 4096;
  std::int64_t max_length = 1024;
  std::string out;
};

Status write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  return out ? Status() : resource_exhausted(path.string() + ": cannot be written");
}

Status make_tokenizer(const TokenizerFlags& flags) {
  std::vector<std::string> texts;
  const auto add = [&](const Json& line, const std::string& where) -> Status {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, string_field(line, "prompt", where));
    OUTRIDER_ASSIGN_OR_RETURN(const std::string answer, string_field(line, "answer", where));
    // As they stand behind a chat template's tags.
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
  const std::filesystem::path out(flags.out);
  OUTRIDER_RETURN_IF_ERROR(write_file(out / "tokenizer.json", tokenizer_json(bpe)));
  const auto vocab = static_cast<std::int32_t>(bpe.pieces.size()) + kNumSpecialTokens;
  return write_file(out / "tokenizer_config.json", tokenizer_config_json(vocab, flags.max_length));
}

}  // namespace

void add_tokenizer_command(CommandList& commands) {
  const auto flags = std::make_shared<TokenizerFlags>();
  CLI::App* command = commands.add("tokenizer", "Learn a byte-level BPE vocabulary",
                                   [flags] { return make_tokenizer(*flags); });
  command->add_option("--data", flags->data, "JSONL files of prompts and answers")
      ->check(CLI::ExistingFile);
  command->add_option("--text", flags->text, "Plain text files")->check(CLI::ExistingFile);
  command->add_option("--vocab-size", flags->vocab_size, "Entries, the 3 special tokens included");
  command->add_option("--max-length", flags->max_length, "model_max_length to write");
  command->add_option("--out", flags->out, "The directory to write")->required();
}

}  // namespace outrider
