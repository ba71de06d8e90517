// Learns a byte-level BPE vocabulary from text and writes it as a Hugging Face tokenizer.
//
// Deterministic: the most frequent pair is merged first, and of equally frequent ones the pair of
// lower ids. Ids: the 256 bytes in the order of GPT-2's alphabet, then the merges, then the special
// tokens. The split pattern is Qwen 2's: words with their leading space, single digits.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace outrider {

// The last three ids, in this order.
inline constexpr std::int32_t kNumSpecialTokens = 3;
inline constexpr std::array<std::string_view, kNumSpecialTokens> kSpecialTokens = {
    "<|endoftext|>", "<|im_start|>", "<|im_end|>"};

inline constexpr std::string_view kBpeSplitPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

struct TrainedBpe {
  std::vector<std::string> pieces;  // by id, as bytes; without special tokens
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;  // by rank
};

// vocab_size counts bytes, merges and special tokens: at least 259. There are fewer merges if no
// pair of the text occurs twice. Errors: kInvalidArgument for a vocabulary outside [259, 1 << 20]
// or no text; those of the split.
Result<TrainedBpe> train_bpe(const std::vector<std::string>& texts, std::int32_t vocab_size);

// The contents of tokenizer.json and tokenizer_config.json (with a ChatML template).
std::string tokenizer_json(const TrainedBpe& bpe);
std::string tokenizer_config_json(std::int32_t vocab_size, std::int64_t max_length);

}  // namespace outrider
