// SPDX-License-Identifier: Apache-2.0
#include "common/text/format/gguf_splitting.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/text/pipeline/known_patterns.h"

namespace outrider {
namespace {

struct Splitting {
  std::string_view name;
  std::array<std::string_view, 4> cuts;  // one after another; each match is a piece
  bool nfc = false;
  bool ignore_merges = false;
  bool adds_bos = false;
};

// What llama.cpp does for these names, in the patterns of the families' own tokenizer.json.
// "default" is what it did before files named their way, and what stands in files of unknown ways.
constexpr std::array<Splitting, 5> kSplittings = {{
    {.name = "smollm", .cuts = {kDigitPattern, kGpt2Pattern}},
    {.name = "llama-bpe", .cuts = {kLlama3Pattern}, .ignore_merges = true, .adds_bos = true},
    {.name = "qwen2", .cuts = {kQwen2Pattern}, .nfc = true},
    {.name = "gpt-2", .cuts = {kGpt2Pattern}},
    {.name = "default",
     .cuts = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, kDigitsPattern, "[0-9][0-9][0-9]"}},
}};

const Splitting* find(const std::string& name) {
  const auto* const found =
      std::ranges::find(kSplittings, std::string_view(name), &Splitting::name);
  return found == kSplittings.end() ? nullptr : found;
}

}  // namespace

Status set_gguf_splitting(const std::string& name, TokenizerParts& parts) {
  const Splitting* splitting = find(name);
  if (splitting == nullptr) {
    std::string known;
    for (const Splitting& one : kSplittings) {
      known.append(known.empty() ? "" : ", ").append(one.name);
    }
    return unimplemented("tokenizer.ggml.pre " + printable(name) + " is not supported; known are " +
                         known);
  }
  std::vector<PreTokenizerStep> steps;
  for (const std::string_view cut : splitting->cuts) {
    if (cut.empty()) break;
    OUTRIDER_ASSIGN_OR_RETURN(SplitPattern pattern, SplitPattern::compile(cut));
    steps.emplace_back(SplitStep{std::move(pattern)});
  }
  steps.emplace_back(ByteCharactersStep{});
  parts.pre_tokenizer = PreTokenizer(std::move(steps));
  if (splitting->nfc) parts.normalizer = Normalizer({UnicodeFormStep{UnicodeForm::kNfc}});
  parts.bpe.ignore_merges = splitting->ignore_merges;
  return {};
}

bool gguf_adds_bos(const std::string& name) {
  const Splitting* splitting = find(name);
  return splitting != nullptr && splitting->adds_bos;
}

}  // namespace outrider
