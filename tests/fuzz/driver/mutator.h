// Derives new inputs from old ones, by a seed: the part of a fuzzer without compiler support.
//
// Thread rule: one object, one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace outrider {

class Mutator final {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  // One of `seeds` after a few edits (bits, bytes, numbers, words of text formats, pieces of
  // another seed), or occasionally plain noise. At most `max_size` bytes.
  std::string next(const std::vector<std::string>& seeds, std::size_t max_size);

 private:
  std::size_t below(std::size_t bound);
  // [begin, length) of a piece of the input, short more often than long.
  std::pair<std::size_t, std::size_t> piece(const std::string& input);
  void edit(std::string& input, const std::vector<std::string>& seeds);
  void edit_number(std::string& input);
  std::string noise(std::size_t size);

  std::mt19937_64 random_;
};

}  // namespace outrider
