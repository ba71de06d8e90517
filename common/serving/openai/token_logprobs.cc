// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/token_logprobs.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "common/engine/text/pipeline/utf8.h"
#include "common/engine/text/streaming_detokenizer.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string_view bytes_of(const Tokenizer& tokenizer, TokenId id) {
  const Result<std::string_view> bytes = tokenizer.token_bytes(id);
  return bytes.ok() ? *bytes : std::string_view();
}

OrderedJson chat_token(const Tokenizer& tokenizer, TokenId id, float logprob) {
  const std::string_view bytes = bytes_of(tokenizer, id);
  OrderedJson numbers = OrderedJson::array();
  for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
  return {
      {"token", replace_ill_formed(bytes)}, {"logprob", logprob}, {"bytes", std::move(numbers)}};
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](unsigned char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

OrderedJson LogprobsForm::of(std::span<const AnswerPiece> pieces) {
  OrderedJson all = std::exchange(begun_, nullptr);
  for (const AnswerPiece& piece : pieces) {
    if (!piece.logprobs) continue;
    if (is_chat_) {
      OrderedJson token = chat_token(*tokenizer_, piece.id, piece.logprobs->chosen);
      token["top_logprobs"] = OrderedJson::array();
      for (const Candidate& one : piece.logprobs->top) {
        token["top_logprobs"].push_back(chat_token(*tokenizer_, one.token, one.score));
      }
      all["content"].push_back(std::move(token));
      continue;
    }
    add(piece.id, &*piece.logprobs, all);
    offset_ += characters(replace_ill_formed(bytes_of(*tokenizer_, piece.id)));
  }
  return all;
}

// A plain completion's. logprobs: null: there are none of this token.
void LogprobsForm::add(TokenId id, const TokenLogprobs* logprobs, OrderedJson& all) const {
  OrderedJson top;
  if (logprobs != nullptr) {
    top = OrderedJson::object();
    for (const Candidate& one : logprobs->top) {
      top[replace_ill_formed(bytes_of(*tokenizer_, one.token))] = one.score;
    }
  }
  all["tokens"].push_back(replace_ill_formed(bytes_of(*tokenizer_, id)));
  all["token_logprobs"].push_back(logprobs != nullptr ? OrderedJson(logprobs->chosen)
                                                      : OrderedJson());
  all["top_logprobs"].push_back(std::move(top));
  all["text_offset"].push_back(offset_);
}

// The prompt's text leaves out special tokens, and a tokenizer may leave out a space at its
// beginning, so offsets are counted in the text itself.
void LogprobsForm::begin_with(std::vector<TokenId> prompt) {
  if (prompt.empty()) return;
  prompt_ = std::move(prompt);
  StreamingDetokenizer text(*tokenizer_);
  std::size_t end = 0;
  for (const TokenId id : prompt_) {
    prompt_offsets_.push_back(end);
    if (const Result<std::string> piece = text.push(id); piece.ok()) end += characters(*piece);
  }
  prompt_offsets_.push_back(end + characters(text.finish()));
  add(prompt_.front(), nullptr, begun_);
  offset_ = prompt_offsets_[++prompt_known_];
}

void LogprobsForm::add_prompt(std::span<const TokenLogprobs> logprobs) {
  for (const TokenLogprobs& one : logprobs) {
    if (prompt_known_ >= prompt_.size()) return;
    add(prompt_[prompt_known_], &one, begun_);
    offset_ = prompt_offsets_[++prompt_known_];
  }
}

void LogprobsForm::append(OrderedJson& all, const OrderedJson& more) {
  for (const auto& [key, list] : more.items()) {
    for (const OrderedJson& each : list) all[key].push_back(each);
  }
}

}  // namespace outrider
