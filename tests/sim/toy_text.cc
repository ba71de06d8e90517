// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/toy_text.h"

#include <algorithm>

#include "common/engine/text/tokenizer.h"
#include "common/serving/conversation/streamed_text.h"

namespace outrider {
namespace {

const Tokenizer& toy_tokenizer() {
  // A byte-level tokenizer, where the bytes C3 A9 and E2 AA AA are written like this.
  static const Tokenizer tokenizer = *Tokenizer::load_json(R"({
    "model": {"type": "BPE", "merges": [], "vocab": {
      "a": 0, "Ã": 1, "©": 2, "b": 3, "Ġ": 4, "â": 5, "ª": 6, "c": 7, "d": 8, "e": 9, "f": 10,
      "g": 11}},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "decoder": {"type": "ByteLevel"},
    "added_tokens": []})");
  return tokenizer;
}

std::string bytes_of(std::span<const TokenId> tokens) {
  std::string bytes;
  for (const TokenId token : tokens) bytes += *toy_tokenizer().token_bytes(token);
  return bytes;
}

}  // namespace

std::unique_ptr<AnswerText> make_toy_text(const std::vector<std::string>& stops) {
  return std::make_unique<StreamedText>(toy_tokenizer(), *StopStrings::create(stops));
}

bool ends_within(std::span<const TokenId> tokens, const std::vector<std::string>& stops) {
  const std::string bytes = bytes_of(tokens);
  if (bytes.ends_with('\xC3') || bytes.ends_with('\xE2') || bytes.ends_with("\xE2\xAA"))
    return true;
  return std::ranges::any_of(stops, [&](const std::string& stop) {
    for (std::size_t length = 1; length < stop.size(); ++length) {
      if (bytes.ends_with(stop.substr(0, length))) return true;
    }
    return false;
  });
}

}  // namespace outrider
