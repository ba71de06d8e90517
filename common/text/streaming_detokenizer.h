// Ids in, text out, while a model is still writing.
//
// What push() returns can be shown at once: it is whole characters, and later ids never change it.
// The pieces put together are Tokenizer::decode() of all ids; decode() is made of this class.
// Bytes that are not UTF-8 become U+FFFD: in a byte-level vocabulary one per maximal subpart, as
// in Hugging Face; for byte-fallback tokens one per byte. There Hugging Face differs in one case:
// a run of byte tokens that holds a whole character and a broken one turns into U+FFFD altogether,
// which could only be known at the end of the run. Here the whole character is kept.
//
//   StreamingDetokenizer text(tokenizer);
//   for (TokenId id : ids) { OUTRIDER_ASSIGN_OR_RETURN(std::string piece, text.push(id)); ... }
//   show(text.finish());
//
// Thread rule: one object, one thread; the tokenizer outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/text/tokenizer.h"

namespace outrider {

class StreamingDetokenizer final {
 public:
  explicit StreamingDetokenizer(const Tokenizer& tokenizer, bool skip_special = true);

  // The text that became certain. Errors: kInvalidArgument for an id without token; the state is
  // then as before.
  Result<std::string> push(TokenId id);

  // The rest, and a fresh start.
  std::string finish();

 private:
  // Moves the characters that are complete, or that cannot become so, from held_ to `out`.
  void release(bool at_end, std::string& out);
  void append(std::string_view text, std::string& out);
  void start();

  const Tokenizer& tokenizer_;
  bool skip_special_;
  bool any_token_ = false;
  std::string held_;       // at most the first bytes of one character
  int left_to_strip_ = 0;  // characters at the start of the text
};

}  // namespace outrider
