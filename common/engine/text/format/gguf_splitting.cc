// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/format/gguf_splitting.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/engine/text/pipeline/known_patterns.h"
#include "common/engine/text/pipeline/utf8.h"

namespace outrider {
namespace {

// Each match is a piece, or each run of matches.
struct Cut {
  std::string_view pattern;
  bool joins_neighbours = false;
  bool of_bytes = false;  // cuts the characters of GPT-2's alphabet that stand for the bytes
};

struct Splitting {
  std::string_view name;
  std::array<Cut, 6> cuts;  // applied one after another
  bool nfc = false;
  bool ignore_merges = false;
  bool adds_bos = false;
};

// The patterns are those of the families' own tokenizer.json. "default" is llama.cpp's behaviour
// for files older than the names, and for files with an unknown splitting.
constexpr std::array<Splitting, 13> kSplittings = {{
    {.name = "smollm", .cuts = {{{kDigitPattern}, {kGpt2Pattern}}}},
    {.name = "llama-bpe", .cuts = {{{kLlama3Pattern}}}, .ignore_merges = true, .adds_bos = true},
    {.name = "qwen2", .cuts = {{{kQwen2Pattern}}}, .nfc = true},
    // Qwen 3.5's own file also asks for NFC. llama.cpp, whose name this is, splits without it, and
    // its test vectors have texts that show it.
    {.name = "qwen35", .cuts = {{{kQwen35Pattern}}}},
    {.name = "gpt-2", .cuts = {{{kGpt2Pattern}}}},
    {.name = "mpt", .cuts = {{{kGpt2Pattern}}}, .nfc = true},
    {.name = "starcoder", .cuts = {{{kDigitPattern}, {kGpt2Pattern}}}},
    {.name = "refact", .cuts = {{{kDigitPattern}, {kGpt2Pattern}}}},
    {.name = "command-r", .cuts = {{{kDigitPattern}, {kGpt2Pattern}}}, .nfc = true},
    {.name = "falcon",
     .cuts = {{{.pattern = kPunctuationPattern, .joins_neighbours = true},
               {kGpt2Pattern},
               {.pattern = kDigitsPattern, .of_bytes = true},
               {.pattern = kThreeDigitsPattern, .of_bytes = true}}}},
    {.name = "deepseek-llm",
     .cuts = {{{kNewlinePattern},
               {kDeepSeekLettersPattern},
               {kDeepSeekSymbolsPattern},
               {kSpacesAtEndPattern},
               {kDeepSeekHanPattern},
               {kDigitPattern}}}},
    {.name = "deepseek-coder",
     .cuts = {{{kNewlinePattern},
               {kSpaceAndLettersPattern},
               {kSpaceAndPunctuationPattern},
               {kDeepSeekHanPattern},
               {kDigitPattern}}}},
    {.name = kDefaultGgufSplitting,
     .cuts =
         {{{R"([\p{P}\$\+<=>\^~\|]+)"}, {kGpt2Pattern}, {kDigitsPattern}, {kThreeDigitsPattern}}}},
}};

const Splitting* find_splitting(const std::string& name) {
  const auto* const found =
      std::ranges::find(kSplittings, std::string_view(name), &Splitting::name);
  return found == kSplittings.end() ? nullptr : found;
}

Result<PreTokenizer> pre_tokenizer_of(const Splitting& splitting) {
  std::vector<PreTokenizerStep> steps;
  bool writes_bytes = false;
  for (const Cut& cut : splitting.cuts) {
    if (cut.pattern.empty()) break;
    if (cut.of_bytes && !std::exchange(writes_bytes, true)) {
      steps.emplace_back(ByteCharactersStep{});
    }
    OUTRIDER_ASSIGN_OR_RETURN(SplitPattern pattern, SplitPattern::compile(cut.pattern));
    steps.emplace_back(SplitStep{std::move(pattern), cut.joins_neighbours
                                                         ? SplitBehavior::kContiguous
                                                         : SplitBehavior::kIsolated});
  }
  if (!writes_bytes) steps.emplace_back(ByteCharactersStep{});
  return PreTokenizer(std::move(steps));
}

}  // namespace

Status set_gguf_splitting(const std::string& name, TokenizerParts& parts) {
  const Splitting* splitting = find_splitting(name);
  if (splitting == nullptr) {
    std::string known;
    for (const Splitting& one : kSplittings) {
      known.append(known.empty() ? "" : ", ").append(one.name);
    }
    return unimplemented("tokenizer.ggml.pre " + printable(name) + " is not supported; known are " +
                         known);
  }
  OUTRIDER_ASSIGN_OR_RETURN(parts.pre_tokenizer, pre_tokenizer_of(*splitting));
  if (splitting->nfc) parts.normalizer = Normalizer({UnicodeFormStep{UnicodeForm::kNfc}});
  parts.bpe.ignore_merges = splitting->ignore_merges;
  return {};
}

bool gguf_adds_bos(const std::string& name) {
  const Splitting* splitting = find_splitting(name);
  return splitting != nullptr && splitting->adds_bos;
}

}  // namespace outrider
