// The bits of rows, by name. The first way to be recorded defines a row's bits, as a hash of its
// logits; every later one is compared.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace outrider {

// FNV-1a over the bits of a row's logits.
std::uint64_t hash_logits(std::span<const float> logits);

// The bits of every row seen so far, and how they compared.
class RowBook final {
 public:
  // `row`: "case/position of the prompt" or "case/node"; `way` names how it was computed.
  void record(const std::string& row, const std::string& way, std::uint64_t hash);

  std::int64_t compared() const { return compared_; }
  std::int64_t mismatches() const { return mismatches_; }
  // "row way", of the first few.
  const std::vector<std::string>& mismatched() const { return mismatched_; }
  const std::map<std::string, std::uint64_t>& hashes() const { return hashes_; }

 private:
  std::map<std::string, std::uint64_t> hashes_;
  std::int64_t compared_ = 0;
  std::int64_t mismatches_ = 0;
  std::vector<std::string> mismatched_;
};

}  // namespace outrider
