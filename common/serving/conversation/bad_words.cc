// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/bad_words.h"

#include <algorithm>

#include "common/engine/sampling/choice_settings.h"

namespace outrider {

Result<std::vector<std::vector<TokenId>>> bad_word_tokens(const Tokenizer& tokenizer,
                                                          std::span<const std::string> words) {
  std::vector<std::vector<TokenId>> all;
  for (const std::string& word : words) {
    const std::size_t begin = std::min(word.find_first_not_of(' '), word.size());
    const std::string bare = word.substr(begin);
    if (bare.empty()) {
      return invalid_argument("bad_words has an empty text. Remedy: leave it out");
    }
    for (const std::string& form : {bare, " " + bare}) {
      OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids, tokenizer.encode(form));
      if (std::ranges::find(all, ids) == all.end()) all.push_back(std::move(ids));
    }
  }
  OUTRIDER_RETURN_IF_ERROR(validate({.bad_words = all}, tokenizer.vocab_size()));
  return all;
}

}  // namespace outrider
