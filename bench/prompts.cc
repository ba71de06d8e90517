// SPDX-License-Identifier: Apache-2.0
#include "bench/prompts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/text/chat_template.h"

namespace outrider {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

// The text of a field; empty if it is absent.
Result<std::string> text_field(const Json& line, const char* field, const std::string& where) {
  const auto found = line.find(field);
  if (found == line.end()) return std::string();
  if (!found->is_string()) {
    return invalid_argument(where + ": \"" + field + "\" is not a string");
  }
  return found->get<std::string>();
}

// A model that was trained on conversations answers a bare question with its end.
Status encode(const Tokenizer& tokenizer, const std::string& prompt, const std::string& answer,
              BenchPrompt& out) {
  std::vector<TokenId> whole;
  if (tokenizer.chat_template_source().empty()) {
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

Result<BenchPrompt> parse_line(std::string_view line, const std::string& name,
                               const Tokenizer& tokenizer) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(line, name));
  if (!json.is_object() || !json.contains("prompt")) {
    return invalid_argument(name + ": expected an object with \"prompt\", a string");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, text_field(json, "prompt", name));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string answer, text_field(json, "answer", name));
  BenchPrompt parsed;
  parsed.name = name;
  OUTRIDER_RETURN_IF_ERROR(encode(tokenizer, prompt, answer, parsed).with_context(name));
  return parsed;
}

}  // namespace

Result<std::vector<BenchPrompt>> read_prompts(const std::string& path, const Tokenizer& tokenizer,
                                              std::size_t limit) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  std::vector<BenchPrompt> prompts;
  std::size_t line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (line.empty()) continue;
    if (limit > 0 && prompts.size() == limit) break;
    OUTRIDER_ASSIGN_OR_RETURN(
        BenchPrompt prompt, parse_line(line, path + ":" + std::to_string(line_number), tokenizer));
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) return invalid_argument(path + ": holds no prompt");
  return prompts;
}

}  // namespace outrider
