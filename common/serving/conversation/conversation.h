// A conversation as ids: the prompts for a model, turn by turn.
//
//   Conversation chat = *Conversation::create(tokenizer, *ChatTemplate::choose(source, ""));
//   const EncodedPrompt prompt = *chat.ask("Hello");
//   chat.record_answer(prompt, answer_ids);
//   const EncodedPrompt next = *chat.ask("And now?");            // begins with all ids before
//
// Each prompt is the whole conversation as the template writes it. The part that equals the earlier
// prompts and answers has the same ids, so that caches of both sides stay valid. A template may
// write an earlier answer differently, for instance without its thoughts.
//
// Thread rule: one object, one thread. The tokenizer outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/conversation/chat_template.h"

namespace outrider {

// A prompt for a model.
struct EncodedPrompt {
  std::vector<TokenId> ids;
  std::vector<TokenId> stop_ids;  // these end the answer, in addition to the target's own
  // ChatTemplate::hash() of its template, which must equal the verifier's. Empty: any, for prompts
  // without a template or with one that the user named.
  std::string template_hash = {};
  std::vector<TokenId> shown_ids = {};  // special tokens that are part of the answer's text
  // The end of the text that a template wrote, where it may have begun the answer's reasoning.
  std::string text_end = {};
};

// Refuses a text that can never fit, before it is encoded, which takes long: INVALID_ARGUMENT.
// context: tokens of prompt and answer; 0: it is not known.
Status check_text_fits(const Tokenizer& tokenizer, std::size_t bytes, Position context);

struct RawOptions {
  bool add_special = true;    // add the tokens that frame a text, such as <s>, if they are missing
  bool parse_special = true;  // special tokens that are spelled out in the text become these tokens
};

// The ids of a text whose author wrote the template. Special tokens that it spells out count,
// except those that stand for images, video and sound: without these a model cannot compute them,
// so they stay text. A text that begins with the tokenizer's first tokens does not get them twice.
Result<std::vector<TokenId>> encode_raw(const Tokenizer& tokenizer, std::string_view text,
                                        const RawOptions& options = {});

// Whether a prompt is written by a template, or `template_name` says that none is wanted.
bool has_chat_template(const ChatSource& source, std::string_view template_name);

// A single prompt. It becomes the first message of a conversation if `template_name` names a
// template, or is empty and the source has one. "none": never. What does not is encode_raw()'s.
Result<EncodedPrompt> encode_prompt(const Tokenizer& tokenizer, const ChatSource& source,
                                    const std::string& text, std::string_view template_name,
                                    const RawOptions& raw = {});

// A whole conversation, for an answer to its last message. variables: as ChatTemplate::render();
// context: as check_text_fits().
Result<EncodedPrompt> encode_messages(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                      const std::vector<ChatMessage>& messages,
                                      const nlohmann::ordered_json& variables = nullptr,
                                      Position context = 0);

class Conversation final {
 public:
  // FAILED_PRECONDITION if the tokenizer lacks the token that ends the template's turns.
  static Result<Conversation> create(const Tokenizer& tokenizer, ChatTemplate chat);

  // The prompt for the answer to the user's `message`.
  Result<EncodedPrompt> ask(const std::string& message) const;

  // Records the answer to this prompt, which ask(message) returned last.
  Status record_answer(const std::string& message, const EncodedPrompt& prompt,
                       const std::vector<TokenId>& answer);

  bool empty() const { return messages_.empty(); }
  // Forgets the user's oldest message and its answer: the next prompt is encoded without them.
  // False: there are none.
  bool drop_oldest_turn();
  // Forgets all messages.
  void clear() {
    messages_.clear();
    written_.clear();
    ids_.clear();
  }

 private:
  Conversation(const Tokenizer& tokenizer, ChatTemplate chat, TokenId end_of_turn)
      : tokenizer_(&tokenizer), chat_(std::move(chat)), end_of_turn_(end_of_turn) {}

  const Tokenizer* tokenizer_;
  ChatTemplate chat_;
  TokenId end_of_turn_;
  std::vector<ChatMessage> messages_;  // all turns so far
  std::vector<TokenId> ids_;  // the same as ids, the last answer as the model generated it,
  std::string written_;       // and as text; without the token that ended the answer
};

}  // namespace outrider
