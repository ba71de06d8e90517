// SPDX-License-Identifier: Apache-2.0
#include "bench/prompts/prompts.h"

#include <algorithm>
#include <utility>

#include "bench/prompts/prompt_file.h"
#include "common/conversation/chat_template.h"

namespace outrider {
namespace {

// A model that was trained on conversations answers a bare question with its end.
Status encode(const Tokenizer& tokenizer, const std::string& prompt, const std::string& answer,
              BenchPrompt& out) {
  std::vector<TokenId> whole;
  if (tokenizer.chat_templates().empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(out.ids, tokenizer.encode(prompt));
    OUTRIDER_ASSIGN_OR_RETURN(whole, tokenizer.encode(prompt + answer));
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::choose(tokenizer, ""));
    OUTRIDER_ASSIGN_OR_RETURN(out.ids, chat.encode_chat(tokenizer, {{ChatRole::kUser, prompt}}));
    OUTRIDER_ASSIGN_OR_RETURN(
        whole,
        chat.encode_chat(tokenizer, {{ChatRole::kUser, prompt}, {ChatRole::kAssistant, answer}},
                         /*add_generation_prompt=*/false));
  }
  if (answer.empty()) return {};
  // A token may cross the border: the answer is what follows the part they share.
  const auto border = std::mismatch(out.ids.begin(), out.ids.end(), whole.begin(), whole.end());
  out.answer.assign(border.second, whole.end());
  return {};
}

}  // namespace

Result<std::vector<BenchPrompt>> read_prompts(const std::string& path, const Tokenizer& tokenizer,
                                              std::size_t limit) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PromptLine> lines, read_prompt_file(path, limit));
  std::vector<BenchPrompt> prompts;
  for (const PromptLine& line : lines) {
    BenchPrompt prompt;
    prompt.name = line.name;
    OUTRIDER_RETURN_IF_ERROR(
        encode(tokenizer, line.prompt, line.answer, prompt).with_context(line.name));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace outrider
