// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/token_logprobs.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "common/engine/text/pipeline/utf8.h"

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
  OrderedJson all;
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
    const std::string text = replace_ill_formed(bytes_of(*tokenizer_, piece.id));
    OrderedJson top = OrderedJson::object();
    for (const Candidate& one : piece.logprobs->top) {
      top[replace_ill_formed(bytes_of(*tokenizer_, one.token))] = one.score;
    }
    all["tokens"].push_back(text);
    all["token_logprobs"].push_back(piece.logprobs->chosen);
    all["top_logprobs"].push_back(std::move(top));
    all["text_offset"].push_back(offset_);
    offset_ += characters(text);
  }
  return all;
}

void LogprobsForm::append(OrderedJson& all, const OrderedJson& more) {
  for (const auto& [key, list] : more.items()) {
    for (const OrderedJson& each : list) all[key].push_back(each);
  }
}

}  // namespace outrider
