// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/request_prompt.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/serving/tools/template_calls.h"

namespace outrider {
namespace {

bool has_calls(const std::vector<ChatMessage>& messages) {
  return std::ranges::any_of(messages, [](const ChatMessage& message) {
    return message.sent_along.contains("tool_calls");
  });
}

// Earlier calls as the template wants them.
void adapt_calls(const TemplateCalls& calls, std::vector<ChatMessage>& messages) {
  for (ChatMessage& message : messages) {
    if (!message.sent_along.contains("tool_calls")) continue;
    nlohmann::ordered_json& list = message.sent_along["tool_calls"];
    if (!calls.writes_calls) {
      message.content += write_calls(*calls.format, list);
      message.sent_along.erase("tool_calls");
    } else if (calls.arguments_are_text) {
      for (nlohmann::ordered_json& call : list) {
        nlohmann::ordered_json& arguments = call["function"]["arguments"];
        arguments = arguments.dump();
      }
    }
  }
}

// The special tokens that are marks, which the text must show.
std::vector<TokenId> shown_ids(const Tokenizer& tokenizer, const AnswerSyntax& syntax) {
  std::vector<TokenId> shown;
  for (const std::string_view mark : syntax.marks()) {
    const auto ids = tokenizer.encode(mark, {.add_special_tokens = false, .parse_special = true});
    if (!ids.ok()) continue;
    std::ranges::copy_if(*ids, std::back_inserter(shown),
                         [&](TokenId id) { return tokenizer.is_special(id); });
  }
  return shown;
}

}  // namespace

Result<RequestPrompt> encode_request(const Tokenizer& tokenizer, const CompletionRequest& request,
                                     const ChatForm& form, Position context) {
  RequestPrompt made;
  if (!request.is_chat) {
    OUTRIDER_RETURN_IF_ERROR(check_text_fits(tokenizer, request.prompt.size(), context));
    OUTRIDER_ASSIGN_OR_RETURN(
        made.prompt, encode_prompt(tokenizer, form.source, request.prompt, "none", request.raw));
    return made;
  }
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat,
                            ChatTemplate::choose(form.source, form.template_name));
  AnswerSyntax& syntax = made.syntax;
  const bool offers_tools = !request.tool_use.tools.empty();
  std::vector<ChatMessage> messages = request.messages;
  nlohmann::ordered_json variables = request.template_variables;
  if (offers_tools || has_calls(messages)) {
    OUTRIDER_ASSIGN_OR_RETURN(const TemplateCalls calls,
                              calls_of_template(chat, form.reading.tool_call_parser));
    adapt_calls(calls, messages);
    if (offers_tools) {
      variables["tools"] = request.tool_use.written;
      syntax.calls = calls.format;
      syntax.tools = std::make_shared<const Tools>(request.tool_use.tools);
      syntax.one_call = !request.tool_use.in_parallel;
    }
  }
  OUTRIDER_ASSIGN_OR_RETURN(made.prompt,
                            encode_messages(tokenizer, chat, messages, variables, context));
  syntax.reads_reasoning =
      request.reads_reasoning.value_or(form.reading.reasoning == ReasoningFormat::kAuto);
  syntax.shows_reasoning = request.shows_reasoning;
  syntax.prompt_end = made.prompt.text_end;
  made.prompt.shown_ids = shown_ids(tokenizer, syntax);
  return made;
}

}  // namespace outrider
