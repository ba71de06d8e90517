// SPDX-License-Identifier: Apache-2.0
#include "adapters/answers/acceptance.h"

#include <algorithm>

#include "adapters/exits/hidden_states.h"
#include "common/engine/sampling/sampling.h"

namespace outrider {
namespace {

constexpr std::size_t kLongestMatch = 3;

}  // namespace

Result<std::vector<std::vector<bool>>> greedy_hits(Model& model,
                                                   const std::vector<Document>& documents) {
  OUTRIDER_ASSIGN_OR_RETURN(HiddenReader reader, HiddenReader::make(model, {}));
  const auto vocab = static_cast<std::size_t>(model.info().vocab_size);
  std::vector<std::vector<bool>> hits(documents.size());
  for (std::size_t i = 0; i < documents.size(); ++i) {
    HiddenBatch batch = reader.empty_batch();
    OUTRIDER_RETURN_IF_ERROR(reader.read(documents[i], batch));
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      const auto logits = std::span<const float>(batch.logits).subspan(row * vocab, vocab);
      hits[i].push_back(choose(logits, {}, 0, 0) == batch.next[row]);
    }
  }
  return hits;
}

double tokens_per_pass(const std::vector<std::vector<bool>>& hits, int gamma) {
  double tokens = 0, passes = 0;
  for (const std::vector<bool>& text : hits) {
    for (std::size_t at = 0; at < text.size(); ++passes) {
      int taken = 0;
      while (taken < gamma && at + static_cast<std::size_t>(taken) < text.size() &&
             text[at + static_cast<std::size_t>(taken)]) {
        ++taken;
      }
      const std::size_t step = std::min(text.size() - at, static_cast<std::size_t>(taken) + 1);
      tokens += static_cast<double>(step);
      at += step;
    }
  }
  return passes > 0 ? tokens / passes : 0;
}

std::vector<TokenId> look_up(std::span<const TokenId> text, int gamma) {
  for (std::size_t length = kLongestMatch; length > 0; --length) {
    if (text.size() <= length) continue;
    const auto last = text.last(length);
    const auto before = text.first(text.size() - 1);  // tokens do not match themselves
    const auto found = std::find_end(before.begin(), before.end(), last.begin(), last.end());
    if (found == before.end()) continue;
    const auto next = text.subspan(static_cast<std::size_t>(found - before.begin()) + length);
    const auto guessed = next.first(std::min(next.size(), static_cast<std::size_t>(gamma)));
    return {guessed.begin(), guessed.end()};
  }
  return {};
}

std::size_t passes_by_look_up(std::span<const TokenId> prompt, std::span<const TokenId> answer,
                              int gamma) {
  std::vector<TokenId> text(prompt.begin(), prompt.end());
  std::size_t passes = 0;
  for (std::size_t at = 0; at < answer.size(); ++passes) {
    const std::vector<TokenId> guesses = look_up(text, gamma);
    const auto rest = answer.subspan(at);
    const auto right =
        static_cast<std::size_t>(std::ranges::mismatch(guesses, rest).in1 - guesses.begin());
    const auto taken = rest.first(std::min(right + 1, rest.size()));
    text.insert(text.end(), taken.begin(), taken.end());
    at += taken.size();
  }
  return passes;
}

}  // namespace outrider
