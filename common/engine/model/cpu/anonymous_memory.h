// Memory mapped from the system: zero, allocated page by page at first use, returned at once when
// freed. For converted weights, keys and values.
//
// Thread rule: a value; one owner. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "common/base/status.h"

namespace outrider {

class AnonymousMemory final {
 public:
  AnonymousMemory() = default;

  // bytes > 0; `what` and `remedy` are for the RESOURCE_EXHAUSTED message.
  static Result<AnonymousMemory> make(std::int64_t bytes, const std::string& what,
                                      const std::string& remedy);

  ~AnonymousMemory();
  AnonymousMemory(AnonymousMemory&& other) noexcept { swap(other); }
  AnonymousMemory& operator=(AnonymousMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  bool is_empty() const { return data_ == nullptr; }
  // At a multiple of 2 MiB.
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void swap(AnonymousMemory& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  void* mapping_ = nullptr;
  void* data_ = nullptr;   // in it
  std::size_t bytes_ = 0;  // of the mapping
};

}  // namespace outrider
