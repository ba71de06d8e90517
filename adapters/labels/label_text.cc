// SPDX-License-Identifier: Apache-2.0
#include "adapters/labels/label_text.h"

#include <algorithm>

#include "common/base/jsonl.h"
#include "common/conversation/chat_template.h"

namespace outrider {
namespace {

class TextReader final {
 public:
  TextReader(const Tokenizer& tokenizer, std::int64_t longest)
      : tokenizer_(tokenizer), longest_(static_cast<std::size_t>(longest)) {}

  Status read_turns(const std::string& path, const ChatTemplate& chat, bool answers_only) {
    OUTRIDER_ASSIGN_OR_RETURN(const TokenId end, chat.end_of_turn(tokenizer_));
    return for_each_line(path, [&](const Json& line, const std::string& where) -> Status {
      OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, string_field(line, "prompt", where));
      OUTRIDER_ASSIGN_OR_RETURN(const std::string answer, string_field(line, "answer", where));
      Document document;
      OUTRIDER_ASSIGN_OR_RETURN(document.tokens,
                                chat.encode_chat(tokenizer_, {{ChatRole::kUser, prompt}}));
      if (document.tokens.size() >= longest_) return {};
      document.learnt.resize(document.tokens.size(), answers_only ? 0 : 1);
      OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                                tokenizer_.encode(answer, {.add_special_tokens = false}));
      document.tokens.insert(document.tokens.end(), ids.begin(), ids.end());
      document.tokens.push_back(end);
      add(std::move(document));
      return {};
    });
  }

  Status read_plain(const std::string& path) {
    return for_each_line(path, [&](const Json& line, const std::string& where) -> Status {
      OUTRIDER_ASSIGN_OR_RETURN(const std::string text, string_field(line, "text", where));
      OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer_.encode(text));
      for (std::size_t begin = 0; begin < ids.size(); begin += longest_) {
        const std::size_t end = std::min(ids.size(), begin + longest_);
        add({{ids.begin() + static_cast<std::ptrdiff_t>(begin),
              ids.begin() + static_cast<std::ptrdiff_t>(end)},
             {}});
      }
      return {};
    });
  }

  std::vector<Document> take() { return std::move(documents_); }

 private:
  // What has no mark yet is learnt.
  void add(Document document) {
    document.tokens.resize(std::min(document.tokens.size(), longest_));
    document.learnt.resize(document.tokens.size(), 1);
    if (document.tokens.size() > 1) documents_.push_back(std::move(document));
  }

  const Tokenizer& tokenizer_;
  const std::size_t longest_;
  std::vector<Document> documents_;
};

}  // namespace

Result<std::vector<Document>> read_label_text(const Tokenizer& tokenizer, const LabelText& text) {
  TextReader reader(tokenizer, text.longest);
  if (!text.data.empty() || !text.answers.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat,
                              ChatTemplate::choose(tokenizer, text.chat_template));
    for (const std::string& path : text.data) {
      OUTRIDER_RETURN_IF_ERROR(reader.read_turns(path, chat, false));
    }
    for (const std::string& path : text.answers) {
      OUTRIDER_RETURN_IF_ERROR(reader.read_turns(path, chat, true));
    }
  }
  for (const std::string& path : text.text) OUTRIDER_RETURN_IF_ERROR(reader.read_plain(path));
  std::vector<Document> documents = reader.take();
  if (documents.empty()) {
    return data_loss(
        "nothing to label: no text, or prompts that leave no room for an answer. Remedy: --data, "
        "--answers or --text FILE; a larger --max-length");
  }
  return documents;
}

}  // namespace outrider
