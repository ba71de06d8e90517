// The split patterns of families of tokenizers, which files name or assume. Each is spelled as in
// the family's own tokenizer.json.
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

// Qwen 3.5 keeps marks (accents, vowel signs) with their letters.
inline constexpr std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Those that match every character of a text, so that no text is left between their matches.
inline constexpr std::array kPatternsOfAllText = {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern,
                                                  kQwen35Pattern};

// Numbers of any script; and punctuation with all of ASCII's.
inline constexpr std::string_view kDigitPattern = R"(\p{N})";
inline constexpr std::string_view kDigitsPattern = R"(\p{N}+)";
inline constexpr std::string_view kPunctuationPattern = R"([\p{P}$+<=>^`|~])";
inline constexpr std::string_view kThreeDigitsPattern = "[0-9][0-9][0-9]";

// DeepSeek's first models cut a text several times. kDeepSeekLettersPattern has the letters of
// scripts with upper and lower case; those that Unicode's NFC would replace are escaped.
inline constexpr std::string_view kNewlinePattern = "[\r\n]";
inline constexpr std::string_view kSpaceAndLettersPattern = R"(\s?\p{L}+)";
inline constexpr std::string_view kSpaceAndPunctuationPattern = R"(\s?\p{P}+)";
inline constexpr std::string_view kDeepSeekHanPattern = "[一-龥ࠀ-一가-\uD7FF]+";
inline constexpr std::string_view kDeepSeekSymbolsPattern = "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+";
inline constexpr std::string_view kSpacesAtEndPattern = R"(\s+$)";
inline constexpr std::string_view kDeepSeekLettersPattern =
    R"(\s?[)"
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-"
    "ჅᎠ-"
    "Ᏽ"
    "ᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1F7Dᾀ-"
    "ᾴᾶ-"
    "ᾼ\u1FBEῂ-"
    "ῄῆ-"
    "ῌῐ-"
    "\u1FD3ῖ-"
    "\u1FDB"
    "ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212A-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-"
    "ꚛꜢ-"
    "ꝯꝱ-"
    "ꞇ"
    "Ꞌ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-"
    "𑣟𞤀-"
    "𞥃"
    "]+";

}  // namespace outrider
