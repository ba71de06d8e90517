// Forms of answers as clients send them: whatever a form is, it is compiled or refused, and what
// was compiled steps on without harm. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/engine/constraint/constraint_compiler.h"

namespace {

using outrider::ConstraintKind;

// One token for each byte.
outrider::GrammarVocabulary bytes() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  return outrider::GrammarVocabulary(pieces, [](std::string_view text) {
    std::vector<outrider::TokenId> tokens;
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  });
}

}  // namespace

// The first byte chooses the kind, the second the steps.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  constexpr std::size_t kMaxForm = 2000;  // larger ones take longer, and say no more
  constexpr int kKinds = 5;
  static outrider::ConstraintCompiler compiler(
      bytes, {.trial = {.time = std::chrono::milliseconds(300)}, .kept_forms = 4});
  const auto kind = static_cast<ConstraintKind>(1 + data[0] % kKinds);
  const std::string text(reinterpret_cast<const char*>(data) + 2, std::min(size - 2, kMaxForm));
  const auto constraint = compiler.compile({kind, text});
  if (!constraint.ok()) {
    if (constraint.status().message().empty()) __builtin_trap();
    return 0;
  }
  const auto state = constraint->compiled->begin();
  std::uint32_t seed = data[1];
  for (int step = 0; step < 20; ++step) {
    const auto allowed = state->allowed({});
    seed = seed * 1664525 + 1013904223;
    outrider::TokenId next = static_cast<outrider::TokenId>(seed >> 24);
    for (int looked = 0; looked < 256 && !allowed->has(next); ++looked) next = (next + 1) % 256;
    if (!allowed->has(next)) break;
    // A forced text is allowed, token for token.
    const std::vector<outrider::TokenId> forced = state->forced({});
    for (std::size_t i = 0; i < std::min<std::size_t>(forced.size(), 8); ++i) {
      if (!state->allowed(std::span(forced).first(i))->has(forced[i])) __builtin_trap();
    }
    // The tokens that may follow a path are those that may follow the same text.
    const std::vector<std::uint32_t> ahead = state->allowed({&next, 1})->words;
    state->append({&next, 1});
    if (state->allowed({})->words != ahead) __builtin_trap();
  }
  return 0;
}
