// Places in a ring of memory for pieces of different sizes, taken and given back in the same order.
//
// Thread rule: a value; pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

namespace outrider {

class MemoryRing final {
 public:
  explicit MemoryRing(std::size_t capacity) : capacity_(capacity) {}

  // Where the next piece begins; nothing while there is no room in one piece.
  std::optional<std::size_t> take(std::size_t bytes) {
    if (bytes > capacity_) return std::nullopt;
    const std::size_t begin = pieces_.empty() ? 0 : pieces_.front().begin;
    std::size_t at = pieces_.empty() ? 0 : pieces_.back().end;
    const bool wrapped = !pieces_.empty() && at <= begin;  // the free part lies between them
    if (wrapped) {
      if (begin - at < bytes) return std::nullopt;
    } else if (capacity_ - at < bytes) {
      if (begin < bytes) return std::nullopt;
      at = 0;
    }
    pieces_.push_back({at, at + bytes});
    return at;
  }

  // The oldest piece.
  void give_back() { pieces_.pop_front(); }
  void clear() { pieces_.clear(); }
  std::size_t capacity() const { return capacity_; }

 private:
  struct Piece {
    std::size_t begin;
    std::size_t end;
  };

  std::size_t capacity_;
  std::deque<Piece> pieces_;
};

}  // namespace outrider
