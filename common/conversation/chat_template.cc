// SPDX-License-Identifier: Apache-2.0
#include "common/conversation/chat_template.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "common/conversation/default_system.h"
#include "common/text/pipeline/utf8.h"

namespace outrider {
namespace {

using Family = ChatTemplate::Family;

constexpr std::string_view kVicunaSystem =
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives "
    "helpful, detailed, and polite answers to the user's questions.";

struct KnownFamily {
  Family family;
  std::string_view name;
  std::string_view marker;  // in the Jinja text of this family and of none after it
};

constexpr std::array<KnownFamily, 5> kFamilies = {{
    {Family::kLlama3, "llama3", "<|start_header_id|>"},
    {Family::kChatml, "chatml", "<|im_start|>"},
    {Family::kLlama2, "llama2", "<<SYS>>"},
    {Family::kZephyr, "zephyr", "<|assistant|>"},
    {Family::kVicuna, "vicuna", "ASSISTANT:"},
}};

std::string known_names() {
  std::string names;
  for (const KnownFamily& known : kFamilies) {
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return names;
}

// The Jinja text that `name` means: the template of that name, or the one that the tokenizer has
// for all uses.
struct ChosenSource {
  std::string text;
  bool by_name = false;
};

ChosenSource choose_source(const std::map<std::string, std::string>& templates,
                           std::string_view name) {
  const bool is_family = std::ranges::count(kFamilies, name, &KnownFamily::name) > 0;
  const auto named = templates.find(std::string(name));
  if (!name.empty() && !is_family && named != templates.end()) return {named->second, true};
  const auto usual = templates.size() == 1 ? templates.begin() : templates.find("default");
  return {usual == templates.end() ? std::string() : usual->second};
}

std::string names_of(const std::map<std::string, std::string>& templates) {
  std::string names;
  for (const auto& [name, text] : templates) {
    names.append(names.empty() ? "" : ", ").append(printable(name));
  }
  return names;
}

Status check_order(const std::vector<ChatMessage>& messages) {
  const std::size_t first = !messages.empty() && messages.front().role == ChatRole::kSystem ? 1 : 0;
  if (messages.size() == first) return invalid_argument("chat: no message of the user");
  for (std::size_t i = first; i < messages.size(); ++i) {
    const ChatRole wanted = (i - first) % 2 == 0 ? ChatRole::kUser : ChatRole::kAssistant;
    if (messages[i].role != wanted) {
      return invalid_argument("chat: message " + std::to_string(i) +
                              " is out of turn; user and assistant speak by turns");
    }
  }
  return {};
}

Result<std::string> token_text(const Tokenizer& tokenizer, std::optional<TokenId> id,
                               std::string_view name) {
  if (!id) {
    return failed_precondition(
        "chat template: the tokenizer (tokenizer_config.json, or tokenizer.ggml.* of a "
        "GGUF file) names no " +
        std::string(name) + ", which the template needs");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view text, tokenizer.token_bytes(*id));
  return std::string(text);
}

Result<ChatRenderer> make_renderer(const Tokenizer& tokenizer, Family family) {
  std::string bos;
  std::string eos;
  if (family == Family::kLlama2 || family == Family::kLlama3 || family == Family::kVicuna) {
    OUTRIDER_ASSIGN_OR_RETURN(bos, token_text(tokenizer, tokenizer.bos(), "bos_token"));
  }
  if (family == Family::kLlama2 || family == Family::kVicuna || family == Family::kZephyr) {
    OUTRIDER_ASSIGN_OR_RETURN(eos, token_text(tokenizer, tokenizer.eos(), "eos_token"));
  }
  return ChatRenderer(family, std::move(bos), std::move(eos));
}

Result<std::vector<TokenId>> encode_segments(const Tokenizer& tokenizer,
                                             const std::vector<ChatSegment>& segments) {
  std::vector<TrustedText> parts;
  parts.reserve(segments.size());
  for (const ChatSegment& segment : segments) parts.push_back({segment.text, segment.is_template});
  return tokenizer.encode(parts, /*add_special_tokens=*/false);
}

}  // namespace

Result<ChatTemplate> ChatTemplate::choose(const Tokenizer& tokenizer, std::string_view name) {
  const auto& templates = tokenizer.chat_templates();
  const ChosenSource source = choose_source(templates, name);
  for (const KnownFamily& known : kFamilies) {
    const bool marked = source.text.find(known.marker) != std::string::npos;
    if (name.empty() || source.by_name ? !marked : name != known.name) continue;
    const bool is_vicuna = known.family == Family::kVicuna;
    const bool is_chatml = known.family == Family::kChatml;
    return ChatTemplate(known.family, is_vicuna   ? std::string(kVicunaSystem)
                                      : is_chatml ? default_system_message(source.text)
                                                  : std::string());
  }
  const std::string own =
      templates.size() > 1 ? "; the tokenizer's own are " + names_of(templates) : "";
  const std::string remedy = "; choose one with --chat-template: " + known_names() + own;
  if (!name.empty() && !source.by_name) {
    return invalid_argument("chat template " + printable(name) + " is not known" + remedy);
  }
  if (templates.empty()) return not_found("the tokenizer has no chat template" + remedy);
  return not_found(source.text.empty()
                       ? "none of the tokenizer's chat templates is the default" + remedy
                       : "the tokenizer's chat template is of no known family" + remedy);
}

std::string_view ChatTemplate::name() const {
  for (const KnownFamily& known : kFamilies) {
    if (known.family == family_) return known.name;
  }
  return {};
}

Result<std::vector<ChatSegment>> ChatTemplate::render(const Tokenizer& tokenizer,
                                                      const std::vector<ChatMessage>& messages,
                                                      bool add_generation_prompt) const {
  OUTRIDER_RETURN_IF_ERROR(check_order(messages));
  OUTRIDER_ASSIGN_OR_RETURN(ChatRenderer renderer, make_renderer(tokenizer, family_));
  renderer.start();
  if (messages.front().role != ChatRole::kSystem && !default_system_.empty()) {
    renderer.system(default_system_);
  }
  for (const ChatMessage& message : messages) {
    const std::string content = replace_ill_formed(message.content);
    if (message.role == ChatRole::kSystem) renderer.system(content);
    if (message.role == ChatRole::kUser) renderer.user(content);
    if (message.role == ChatRole::kAssistant) renderer.assistant(content);
  }
  if (add_generation_prompt) renderer.generation_prompt();
  return renderer.take();
}

Result<std::vector<TokenId>> ChatTemplate::encode_chat(const Tokenizer& tokenizer,
                                                       const std::vector<ChatMessage>& messages,
                                                       bool add_generation_prompt) const {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<ChatSegment> segments,
                            render(tokenizer, messages, add_generation_prompt));
  return encode_segments(tokenizer, segments);
}

Result<std::vector<TokenId>> ChatTemplate::encode_next_turn(const Tokenizer& tokenizer,
                                                            std::string_view user_message,
                                                            bool answer_ended) const {
  OUTRIDER_ASSIGN_OR_RETURN(const TokenId end, end_of_turn(tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(ChatRenderer renderer, make_renderer(tokenizer, family_));
  renderer.end_turn();
  renderer.user(replace_ill_formed(user_message));
  renderer.generation_prompt();
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids, encode_segments(tokenizer, renderer.take()));
  // Encoded with the end token in front, so that what follows reads the same in both cases.
  if (answer_ended && !ids.empty() && ids.front() == end) ids.erase(ids.begin());
  return ids;
}

Result<TokenId> ChatTemplate::end_of_turn(const Tokenizer& tokenizer) const {
  if (family_ != Family::kLlama3 && family_ != Family::kChatml) {
    OUTRIDER_RETURN_IF_ERROR(token_text(tokenizer, tokenizer.eos(), "eos_token").status());
    return *tokenizer.eos();
  }
  const std::string_view marker = family_ == Family::kLlama3 ? "<|eot_id|>" : "<|im_end|>";
  const std::optional<TokenId> id = tokenizer.find(marker);
  if (!id || !tokenizer.is_special(*id)) {
    return failed_precondition("chat template " + std::string(name()) +
                               ": the tokenizer has no special token " + std::string(marker));
  }
  return *id;
}

}  // namespace outrider
