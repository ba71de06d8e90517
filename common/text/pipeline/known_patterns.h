// The split patterns of families of tokenizers, which files name or assume.
//
// Each matches every character of a text, so no text is left between its matches.
//
// Thread rule: constants. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace outrider {

// ByteLevel's default.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Llama 3 takes up to three digits together, Qwen 2 one.
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

inline constexpr std::array kPatternsOfAllText = {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern};

// Numbers of any script; and punctuation with all of ASCII's.
inline constexpr std::string_view kDigitPattern = R"(\p{N})";
inline constexpr std::string_view kDigitsPattern = R"(\p{N}+)";
inline constexpr std::string_view kPunctuationPattern = R"([\p{P}$+<=>^`|~])";

}  // namespace outrider
