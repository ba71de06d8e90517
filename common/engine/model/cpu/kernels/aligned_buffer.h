// An array of plain values at a multiple of 64 bytes, zero after growing: scratch memory of the
// kernels.
//
// Thread rule: a value; one owner. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

namespace outrider {

template <class T>
class AlignedBuffer final {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // Makes room for `size` elements. If it must grow, all elements become zero; else nothing
  // changes.
  void grow(std::size_t size) {
    if (size <= size_) return;
    const std::size_t bytes = (size * sizeof(T) + 63) / 64 * 64;
    values_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
    if (values_ == nullptr) throw std::bad_alloc();
    std::memset(static_cast<void*>(values_.get()), 0, bytes);
    size_ = size;
  }

  T* data() { return values_.get(); }
  const T* data() const { return values_.get(); }

 private:
  struct Free {
    void operator()(T* values) const { std::free(values); }
  };
  std::unique_ptr<T, Free> values_;
  std::size_t size_ = 0;
};

}  // namespace outrider
