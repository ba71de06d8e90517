// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/fill_in.h"

#include <array>
#include <optional>
#include <span>
#include <utility>

namespace outrider {
namespace {

// The marks before the two texts, in the order of the prompt, and at its end; empty: there is none.
struct FillForm {
  std::string_view first, second, last;
  bool after_first = false;  // the text behind the answer stands first
};

constexpr std::array<FillForm, 5> kFillForms = {{
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},  // Qwen-Coder, CodeGemma
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},        // StarCoder, Granite
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},        // SantaCoder
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},  // DeepSeek-Coder
    {"[SUFFIX]", "[PREFIX]", "", /*after_first=*/true},      // Codestral
}};

// The ids of a form's marks; nothing: the tokenizer lacks one.
std::optional<std::vector<TokenId>> marks_in(const Tokenizer& tokenizer, const FillForm& form) {
  std::vector<TokenId> marks;
  for (const std::string_view mark : {form.first, form.second, form.last}) {
    if (mark.empty()) continue;
    const std::optional<TokenId> id = tokenizer.find(mark);
    if (!id) return std::nullopt;
    marks.push_back(*id);
  }
  return marks;
}

}  // namespace

Result<EncodedPrompt> encode_between(const Tokenizer& tokenizer, const std::vector<TokenId>& before,
                                     std::string_view after, bool frame) {
  for (const FillForm& form : kFillForms) {
    std::optional<std::vector<TokenId>> marks = marks_in(tokenizer, form);
    if (!marks) continue;
    // Special tokens that the text spells out stay text.
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> behind,
                              tokenizer.encode(after, {.add_special_tokens = false}));
    const std::vector<TokenId>& first = form.after_first ? behind : before;
    const std::vector<TokenId>& second = form.after_first ? before : behind;
    std::vector<TokenId> ids;
    const auto add = [&ids](std::span<const TokenId> more) {
      ids.insert(ids.end(), more.begin(), more.end());
    };
    if (frame) add(tokenizer.prefix());
    ids.push_back((*marks)[0]);
    add(first);
    ids.push_back((*marks)[1]);
    add(second);
    if (!form.last.empty()) ids.push_back(marks->back());
    return EncodedPrompt{.ids = std::move(ids), .stop_ids = *std::move(marks)};
  }
  return unimplemented(
             "'suffix' is not supported here: this model's tokenizer has no marks for a text "
             "between two others, such as <|fim_prefix|>. Remedy: leave it out, or a model that "
             "completes code")
      .with_detail({.reason = "unsupported_parameter", .field = "suffix"});
}

}  // namespace outrider
