// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/driver/mutator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace outrider {
namespace {

// Strings that often break parsers of JSON, of text and of configuration.
constexpr std::array<std::string_view, 24> kWords = {"0",
                                                     "-1",
                                                     "1e400",
                                                     "18446744073709551615",
                                                     "9223372036854775807",
                                                     "0.5",
                                                     "null",
                                                     "true",
                                                     "{}",
                                                     "[]",
                                                     "\"\"",
                                                     "[[[[[[[[",
                                                     "{\"a\":{\"a\":",
                                                     "\\u0000",
                                                     "\\ud800",
                                                     ",",
                                                     ":",
                                                     "\n",
                                                     "\xff",
                                                     "\xc0\x80",
                                                     "\xf0\x9f\x98\x80",
                                                     "\xe2\x96\x81",
                                                     "/../",
                                                     "="};

constexpr std::array<std::uint64_t, 10> kNumbers = {0,
                                                    1,
                                                    0x7f,
                                                    0x80,
                                                    0xffff,
                                                    0x7fffffff,
                                                    0x80000000,
                                                    0xffffffff,
                                                    0x7fffffffffffffff,
                                                    0xffffffffffffffff};

}  // namespace

std::size_t Mutator::below(std::size_t bound) {
  return bound == 0 ? 0 : static_cast<std::size_t>(random_() % bound);
}

std::pair<std::size_t, std::size_t> Mutator::piece(const std::string& input) {
  const std::size_t begin = below(input.size() + 1);
  const std::size_t longest = below(4) == 0 ? input.size() : 16;
  return {begin, std::min(below(longest + 1), input.size() - begin)};
}

std::string Mutator::noise(std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random_());
  return bytes;
}

// Overwrites 1, 2, 4 or 8 bytes with a number at an end of its range, or one off.
void Mutator::edit_number(std::string& input) {
  const std::size_t width = std::size_t{1} << below(4);
  if (input.size() < width) return;
  const std::uint64_t number = kNumbers[below(kNumbers.size())] + below(3) - 1;
  std::memcpy(input.data() + below(input.size() - width + 1), &number, width);
}

void Mutator::edit(std::string& input, const std::vector<std::string>& seeds) {
  const auto [begin, length] = piece(input);
  switch (below(9)) {
    case 0:
      if (!input.empty()) input[below(input.size())] ^= static_cast<char>(1u << below(8));
      return;
    case 1:
      if (!input.empty()) input[below(input.size())] = static_cast<char>(random_());
      return;
    case 2:
      return edit_number(input);
    case 3:
      input.erase(begin, length);
      return;
    case 4:
      input.insert(below(input.size() + 1), input.substr(begin, length));
      return;
    case 5:
      input.insert(begin, kWords[below(kWords.size())]);
      return;
    case 6:
      input.replace(begin, length, kWords[below(kWords.size())]);
      return;
    case 7:
      input.insert(begin, noise(1 + below(8)));
      return;
    default:
      const std::string& other = seeds[below(seeds.size())];
      const auto [other_begin, other_length] = piece(other);
      input.replace(begin, length, other.substr(other_begin, other_length));
  }
}

std::string Mutator::next(const std::vector<std::string>& seeds, std::size_t max_size) {
  if (below(16) == 0) return noise(below(std::min<std::size_t>(max_size, 512)));
  std::string input = seeds[below(seeds.size())];
  for (std::size_t edits = 1 + below(below(4) == 0 ? 24 : 4); edits > 0; --edits) {
    edit(input, seeds);
  }
  if (input.size() > max_size) input.resize(max_size);
  return input;
}

}  // namespace outrider
