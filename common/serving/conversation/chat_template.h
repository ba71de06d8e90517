// Writes conversations in the form that a model was trained on.
//
//   const ChatTemplate chat = *ChatTemplate::choose(chat_source(tokenizer), "");
//   const std::vector<TokenId> ids = *chat.encode_chat(tokenizer, messages);
//
// A template is a Jinja text, which is executed (jinja/template.h): the model's own, unless another
// one is named. Its markers become special tokens; the same markers in a message stay text, so no
// message can end its turn or begin another.
//
// Thread rule: immutable; const use from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/text/tokenizer.h"

namespace outrider {

namespace jinja {
class Template;
}

enum class ChatRole : std::uint8_t { kSystem, kUser, kAssistant, kTool };

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::string content;
  // Further members of the message that the template may write: texts such as reasoning_content,
  // and the list tool_calls. An object, or null.
  nlohmann::ordered_json sent_along = nullptr;
};

// A part of a rendered conversation: the template's own text, or a message's.
struct ChatSegment {
  std::string text;
  bool is_template = false;
};

// A model's data for chats.
struct ChatSource {
  std::map<std::string, std::string> templates =
      {};                               // Jinja texts by name; the default one is "default"
  std::optional<std::string> bos = {};  // texts of the tokens that templates name
  std::optional<std::string> eos = {};
  std::string chosen = {};  // the operator's choice: a template's name; empty: none

  friend bool operator==(const ChatSource&, const ChatSource&) = default;
};

ChatSource chat_source(const Tokenizer& tokenizer);

// The model's ChatSource with the text of this file as its template. `value` is of --chat-template
// and a path if it has a slash or ends with .jinja. Nothing: it is a name.
Result<std::optional<ChatSource>> source_of_file(const ChatSource& model, const std::string& value);

// 64 hex digits that identify a template: SHA-256 of the text that writes prompts, or of the name
// if the operator chose one of named_templates.h. Empty: there is no template.
std::string template_hash(const ChatSource& source);

class ChatTemplate final {
 public:
  // The template `name`: one of named_templates.h, or one of the source's templates. If it is
  // empty: the source's choice, or else its only or default template. Errors, with the remedy:
  // INVALID_ARGUMENT for an unknown name or an invalid template, NOT_FOUND if there is none,
  // FAILED_PRECONDITION if the model names no token that a named template needs.
  static Result<ChatTemplate> choose(const ChatSource& source, std::string_view name);
  static Result<ChatTemplate> choose(const Tokenizer& tokenizer, std::string_view name) {
    return choose(chat_source(tokenizer), name);
  }

  // One of named_templates.h, or "the model's own".
  const std::string& name() const { return name_; }
  // template_hash() of the source; empty if the caller of choose() named the template.
  const std::string& hash() const { return hash_; }

  // variables: an object of further variables of the template, such as tools and enable_thinking;
  // null: none. Their texts count as the user's. Errors: INVALID_ARGUMENT if the template refuses
  // these messages, or ends at a bound.
  Result<std::vector<ChatSegment>> render(const std::vector<ChatMessage>& messages,
                                          bool add_generation_prompt,
                                          const nlohmann::ordered_json& variables = nullptr) const;

  // The ids of render(); the template determines whether they begin with <s>.
  Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer,
                                           const std::vector<ChatMessage>& messages,
                                           bool add_generation_prompt = true,
                                           const nlohmann::ordered_json& variables = nullptr) const;

  // The token with which the model ends its turn; generation stops there. It is the first special
  // token that the template writes after an answer; if the model's own template writes none, it is
  // the tokenizer's end of text.
  Result<TokenId> end_of_turn(const Tokenizer& tokenizer) const;

 private:
  ChatTemplate(jinja::Template executed, const ChatSource& source, std::string name,
               std::string hash);

  std::shared_ptr<const jinja::Template> executed_;  // shared by copies
  std::optional<std::string> bos_, eos_;
  std::string behind_answer_;  // what the template writes behind an answer
  std::string name_;
  std::string hash_;
};

// Rendered text as ids. Does not add <s>.
Result<std::vector<TokenId>> encode_segments(const Tokenizer& tokenizer,
                                             const std::vector<ChatSegment>& segments);

}  // namespace outrider
