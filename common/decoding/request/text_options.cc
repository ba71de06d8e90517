// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/request/text_options.h"

#include <random>

namespace outrider {

std::vector<TokenId> all_stop_ids(const TextOptions& text, std::vector<TokenId> of_prompt) {
  if (text.ignore_eos) of_prompt.clear();
  of_prompt.insert(of_prompt.end(), text.stop_token_ids.begin(), text.stop_token_ids.end());
  return of_prompt;
}

void settle_seed(TextOptions& text) {
  if (!text.draws_seed || text.choice.sampling.temperature == 0.0f) return;
  constexpr std::uint64_t kExact = (std::uint64_t{1} << 53) - 1;
  std::random_device device;
  text.choice.seed = (std::uint64_t{device()} << 32 | device()) & kExact;
  text.draws_seed = false;
}

std::optional<std::uint64_t> told_seed(const TokenChoice& choice) {
  if (choice.sampling.temperature == 0.0f) return std::nullopt;
  return choice.seed;
}

}  // namespace outrider
