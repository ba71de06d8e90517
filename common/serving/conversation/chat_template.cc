// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/chat_template.h"

#include <algorithm>
#include <ctime>

#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/engine/text/pipeline/utf8.h"
#include "common/serving/conversation/jinja/template.h"
#include "common/serving/conversation/named_templates.h"

namespace outrider {
namespace {

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.finish_hex();
}

// The model's template of the chosen name, or its default template; null: there is none.
const std::string* chosen_template(const ChatSource& source) {
  const auto& templates = source.templates;
  const auto at = !source.chosen.empty()  ? templates.find(source.chosen)
                  : templates.size() == 1 ? templates.begin()
                                          : templates.find("default");
  return at == templates.end() ? nullptr : &at->second;
}

// Checks the tokens that a named template writes and that a model may lack; a model's own template
// needs no check.
Status check_tokens(const ChatSource& source, std::string_view text) {
  for (const auto& [token, word] :
       {std::pair(&source.bos, "bos_token"), {&source.eos, "eos_token"}}) {
    if (token->has_value() || text.find(word) == std::string_view::npos) continue;
    return failed_precondition("chat template " + source.chosen +
                               ": the model (tokenizer_config.json, or tokenizer.ggml.* of a GGUF "
                               "file) names no " +
                               word + ", which the template needs");
  }
  return {};
}

std::string remedy(const ChatSource& source) {
  std::string own;
  for (const auto& [name, text] : source.templates) {
    own.append(own.empty() ? "; the model's own are " : ", ").append(printable(name));
  }
  return ". Remedy: choose one with --chat-template: " + chat_template_names() +
         ", or the path of a template (with a slash, or .jinja at its end)" +
         (source.templates.size() > 1 ? own : "");
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

std::string_view role_name(ChatRole role) {
  switch (role) {
    case ChatRole::kSystem:
      return "system";
    case ChatRole::kUser:
      return "user";
    case ChatRole::kTool:
      return "tool";
    case ChatRole::kAssistant:
      break;
  }
  return "assistant";
}

// The template's variables, as transformers sets them.
Result<jinja::Rendered> execute(const jinja::Template& executed,
                                const std::optional<std::string>& bos,
                                const std::optional<std::string>& eos,
                                const std::vector<ChatMessage>& messages,
                                bool add_generation_prompt,
                                const nlohmann::ordered_json& variables = nullptr) {
  nlohmann::ordered_json trusted = {{"add_generation_prompt", add_generation_prompt},
                                    {"documents", nullptr}};
  if (!variables.contains("tools")) trusted["tools"] = nullptr;
  if (bos) trusted["bos_token"] = *bos;
  if (eos) trusted["eos_token"] = *eos;
  nlohmann::ordered_json said = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages) {
    nlohmann::ordered_json& one = said.emplace_back(nlohmann::ordered_json(
        {{"role", role_name(message.role)}, {"content", replace_ill_formed(message.content)}}));
    one.update(message.sent_along.is_null() ? nlohmann::ordered_json::object()
                                            : message.sent_along);
  }
  nlohmann::ordered_json context = {{"messages", std::move(said)}};
  for (const auto& [name, value] : variables.items()) {
    // Existing variables have priority.
    if (!trusted.contains(name) && !context.contains(name)) context[name] = value;
  }
  return executed.render(trusted, context, {.now = local_time()});
}

std::vector<ChatSegment> segments_of(const jinja::Rendered& rendered) {
  std::vector<ChatSegment> segments;
  for (std::size_t begin = 0, end = 0; begin < rendered.text.size(); begin = end) {
    const bool is_template = rendered.is_template[begin];
    while (end < rendered.text.size() && rendered.is_template[end] == is_template) ++end;
    segments.push_back(
        {.text = rendered.text.substr(begin, end - begin), .is_template = is_template});
  }
  return segments;
}

// The text that a template writes behind an answer; empty: it cannot write this conversation.
std::string text_behind_answer(const jinja::Template& executed, const ChatSource& source) {
  constexpr std::string_view kAnswer = "answer-8c1f2e";
  const Result<jinja::Rendered> rendered =
      execute(executed, source.bos, source.eos,
              {{ChatRole::kUser, "question"}, {ChatRole::kAssistant, std::string(kAnswer)}}, false);
  const std::size_t at = rendered.ok() ? rendered->text.rfind(kAnswer) : std::string::npos;
  return at == std::string::npos ? "" : rendered->text.substr(at + kAnswer.size());
}

// Editors put a byte order mark before a text, which would be a part of every prompt.
std::string without_byte_order_mark(std::string text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.erase(0, kMark.size());
  return text;
}

}  // namespace

ChatSource chat_source(const Tokenizer& tokenizer) {
  const auto text = [&](std::optional<TokenId> id) -> std::optional<std::string> {
    if (!id) return std::nullopt;
    const Result<std::string_view> bytes = tokenizer.token_bytes(*id);
    return bytes.ok() ? std::optional<std::string>(*bytes) : std::nullopt;
  };
  ChatSource source{.bos = text(tokenizer.bos()), .eos = text(tokenizer.eos())};
  for (const auto& [name, written] : tokenizer.chat_templates())
    source.templates.emplace(name, without_byte_order_mark(written));
  return source;
}

Result<std::optional<ChatSource>> source_of_file(const ChatSource& model,
                                                 const std::string& value) {
  constexpr std::int64_t kMaxTemplateBytes = std::int64_t{1} << 20;
  if (value.find('/') == std::string::npos && !value.ends_with(".jinja")) {
    return std::optional<ChatSource>();
  }
  OUTRIDER_ASSIGN_OR_RETURN(std::string text, read_stream(value, kMaxTemplateBytes));
  return std::optional<ChatSource>(
      {.templates = {{"default", without_byte_order_mark(std::move(text))}},
       .bos = model.bos,
       .eos = model.eos});
}

std::string template_hash(const ChatSource& source) {
  if (named_chat_template(source.chosen)) return sha256_of(source.chosen);
  const std::string* text = chosen_template(source);
  return text == nullptr ? "" : sha256_of(*text);
}

ChatTemplate::ChatTemplate(jinja::Template executed, const ChatSource& source, std::string name,
                           std::string hash)
    : executed_(std::make_shared<const jinja::Template>(std::move(executed))),
      bos_(source.bos),
      eos_(source.eos),
      behind_answer_(text_behind_answer(*executed_, source)),
      name_(std::move(name)),
      hash_(std::move(hash)) {}

Result<ChatTemplate> ChatTemplate::choose(const ChatSource& source, std::string_view name) {
  if (!name.empty()) {
    ChatSource chosen = source;
    chosen.chosen = name;
    OUTRIDER_ASSIGN_OR_RETURN(ChatTemplate chat, choose(chosen, ""));
    chat.hash_.clear();  // chosen by the user
    return chat;
  }
  if (const std::optional<std::string> named = named_chat_template(source.chosen)) {
    OUTRIDER_RETURN_IF_ERROR(check_tokens(source, *named));
    OUTRIDER_ASSIGN_OR_RETURN(jinja::Template parsed, jinja::Template::parse(*named));
    return ChatTemplate(std::move(parsed), source, source.chosen, template_hash(source));
  }
  const std::string* text = chosen_template(source);
  if (text == nullptr && !source.chosen.empty()) {
    return invalid_argument("chat template " + printable(source.chosen) + " is not known" +
                            remedy(source));
  }
  if (text == nullptr) {
    return not_found((source.templates.empty()
                          ? "the model has no chat template"
                          : "none of the model's chat templates is the default") +
                     remedy(source));
  }
  Result<jinja::Template> parsed = jinja::Template::parse(*text);
  if (!parsed.ok()) {
    return Status(parsed.status().code(), parsed.status().message() + remedy(source));
  }
  return ChatTemplate(*std::move(parsed), source, "the model's own", template_hash(source));
}

Result<std::vector<ChatSegment>> ChatTemplate::render(
    const std::vector<ChatMessage>& messages, bool add_generation_prompt,
    const nlohmann::ordered_json& variables) const {
  if (messages.empty()) return invalid_argument("chat: there is no message");
  const Result<jinja::Rendered> rendered =
      execute(*executed_, bos_, eos_, messages, add_generation_prompt, variables);
  if (rendered.ok()) return segments_of(*rendered);
  const Status& status = rendered.status();
  if (status.code() != StatusCode::kResourceExhausted) return status;
  // The same conversation would end at the same bound again: it must not be tried later.
  return invalid_argument(status.message() +
                          ". Remedy: a shorter conversation, or another --chat-template");
}

Result<std::vector<TokenId>> ChatTemplate::encode_chat(
    const Tokenizer& tokenizer, const std::vector<ChatMessage>& messages,
    bool add_generation_prompt, const nlohmann::ordered_json& variables) const {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<ChatSegment> segments,
                            render(messages, add_generation_prompt, variables));
  return encode_segments(tokenizer, segments);
}

Result<TokenId> ChatTemplate::end_of_turn(const Tokenizer& tokenizer) const {
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::vector<TokenId> ids,
      tokenizer.encode(behind_answer_, {.add_special_tokens = false, .parse_special = true}));
  const auto special =
      std::ranges::find_if(ids, [&](TokenId id) { return tokenizer.is_special(id); });
  if (special != ids.end()) return *special;
  if (named_chat_template(name_)) {
    return failed_precondition("chat template " + name_ + ": the tokenizer has no special token " +
                               printable(behind_answer_));
  }
  if (tokenizer.eos()) return *tokenizer.eos();
  return failed_precondition(
      "the model's chat template ends no answer with a special token, and its tokenizer names no "
      "end of text. Remedy: choose a template with --chat-template: " +
      chat_template_names());
}

Result<std::vector<TokenId>> encode_segments(const Tokenizer& tokenizer,
                                             const std::vector<ChatSegment>& segments) {
  std::vector<TrustedText> parts;
  parts.reserve(segments.size());
  for (const ChatSegment& segment : segments) parts.push_back({segment.text, segment.is_template});
  return tokenizer.encode(parts, /*add_special_tokens=*/false);
}

}  // namespace outrider
