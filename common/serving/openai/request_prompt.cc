// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/request_prompt.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/serving/openai/body_fields.h"
#include "common/serving/openai/fill_in.h"
#include "common/serving/tools/call_frames.h"
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

// Holds an answer that must be calls, or calls or a form.
Status hold_to_calls(const CompletionRequest& request, const CallFormat& format,
                     RequestPrompt& made) {
  const ToolUse& use = request.tool_use;
  const ConstraintSpec& form = request.params.text.choice.settings.constraint.spec;
  const bool has_form = form.kind != ConstraintKind::kNone;
  if (!use.must_call && !has_form) return {};
  CallRule rule{.only = use.only,
                .only_strict = !use.must_call,
                .several = use.in_parallel && use.only.empty()};
  if (has_form) rule.instead = form.text.empty() ? R"({"type": "object"})" : form.text;
  made.form_field = use.must_call ? "tool_choice" : request.form_field;
  Result<std::string> frames = call_frames(format, use.tools, rule);
  if (!frames.ok()) {
    return frames.status().with_detail(
        {.reason = "unsupported_parameter", .field = made.form_field});
  }
  made.form = {ConstraintKind::kFramed, *std::move(frames)};
  return {};
}

// Holds the calls that an answer may have in its text, if a tool is strict. A grammar has no
// special tokens, so text whose marks are some is left free.
void hold_text(const CompletionRequest& request, const std::vector<TokenId>& special_marks,
               RequestPrompt& made) {
  const ToolUse& use = request.tool_use;
  const bool is_strict = std::ranges::any_of(use.tools, &Tool::strict);
  if (!is_strict || made.form.kind != ConstraintKind::kNone) return;
  std::optional<std::string> frames;
  if (special_marks.empty()) {
    frames = call_frames_in_text(*made.syntax.calls, use.tools, use.in_parallel);
  }
  made.strict_is_ignored = !frames;
  if (!frames) return;
  made.form = {ConstraintKind::kFramed, *std::move(frames)};
  made.form_field = "tools";
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

Result<EncodedPrompt> encode_plain(const Tokenizer& tokenizer, const PromptText& prompt,
                                   const RawOptions& raw, Position context) {
  if (prompt.ids.empty()) {
    OUTRIDER_RETURN_IF_ERROR(check_text_fits(tokenizer, prompt.text.size(), context));
    return encode_prompt(tokenizer, {}, prompt.text, "none", raw);
  }
  for (const TokenId id : prompt.ids) {
    if (!tokenizer.contains(id)) {
      return wrong("prompt", "of ids that the tokenizer has", Json(id));
    }
  }
  return EncodedPrompt{.ids = prompt.ids, .stop_ids = {}};
}

}  // namespace

// SplitMix64 of both, by Steele, Lea and Flood. Readers of JSON read such a seed exactly.
std::uint64_t seed_of_choice(std::uint64_t seed, std::size_t index) {
  if (index == 0) return seed;
  std::uint64_t mixed = seed + index * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return (mixed ^ (mixed >> 31)) >> 11;
}

Result<RequestPrompt> encode_request(const Tokenizer& tokenizer, const CompletionRequest& request,
                                     const ChatForm& form, Position context) {
  RequestPrompt made;
  if (!request.is_chat()) {
    const bool fills_in = !request.suffix.empty();
    const RawOptions raw = fills_in ? RawOptions{false, false} : request.raw;
    OUTRIDER_RETURN_IF_ERROR(check_text_fits(tokenizer, request.suffix.size(), context));
    for (const PromptText& prompt : request.prompts) {
      OUTRIDER_ASSIGN_OR_RETURN(EncodedPrompt encoded,
                                encode_plain(tokenizer, prompt, raw, context));
      if (fills_in) {
        const bool frame = prompt.ids.empty() && request.raw.add_special;
        OUTRIDER_ASSIGN_OR_RETURN(encoded,
                                  encode_between(tokenizer, encoded.ids, request.suffix, frame));
      }
      made.prompts.push_back(std::move(encoded));
    }
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
      OUTRIDER_RETURN_IF_ERROR(hold_to_calls(request, *calls.format, made));
    }
  }
  OUTRIDER_ASSIGN_OR_RETURN(EncodedPrompt prompt,
                            encode_messages(tokenizer, chat, messages, variables, context));
  syntax.reads_reasoning =
      !request.tool_use.must_call &&
      request.reads_reasoning.value_or(form.reading.reasoning == ReasoningFormat::kAuto);
  syntax.shows_reasoning = request.shows_reasoning;
  syntax.prompt_end = prompt.text_end;
  prompt.shown_ids = shown_ids(tokenizer, syntax);
  hold_text(request, prompt.shown_ids, made);
  made.prompts.push_back(std::move(prompt));
  return made;
}

}  // namespace outrider
