// Decodes token ids to text while a model is still generating.
//
// push() returns text that can be shown at once: whole characters that later ids never change. All
// pieces together are Tokenizer::decode() of all ids; decode() uses this class. Bytes that are not
// UTF-8 become U+FFFD: in a byte-level vocabulary one per maximal subpart, as in Hugging Face; for
// byte-fallback tokens one per byte. For these Hugging Face differs in one case: it replaces a run
// of byte tokens with a whole character and a broken one by U+FFFD altogether, which is known only
// at the end of the run. This class keeps the whole character.
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
#include "common/engine/text/tokenizer.h"

namespace outrider {

class StreamingDetokenizer final {
 public:
  explicit StreamingDetokenizer(const Tokenizer& tokenizer, bool skip_special = true);

  // Returns the text that is now certain. Errors: kInvalidArgument for an id without token; the
  // state is then unchanged.
  Result<std::string> push(TokenId id);

  // Returns the rest, and resets the object.
  std::string finish();

 private:
  // Moves characters from held_ to `out` that are complete, or that cannot become complete.
  void release(bool at_end, std::string& out);
  void append(std::string_view text, std::string& out);
  void start();

  const Tokenizer& tokenizer_;
  bool skip_special_;
  bool any_token_ = false;
  std::string held_;       // the beginning of one character, or empty
  int left_to_strip_ = 0;  // characters at the start of the text
};

}  // namespace outrider
