// Memory that kernels work on: a GPU's, or the host's where fibers run them.
//
// Thread rule: one thread. Ownership: all that allocate() gives lives until clear() or the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace outrider::gpu {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Of exactly so many bytes, at a multiple of 64 where that leaves no room behind them, else of
  // 16; filled with bytes that no kernel makes.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void write(std::byte* to, std::span<const std::byte> bytes) = 0;
  // Waits for all kernels first.
  virtual void read(const std::byte* from, std::span<std::byte> bytes) = 0;
  virtual void clear() = 0;

  template <class T>
  T* upload(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::byte* to = allocate(values.size() * sizeof(T));
    write(to, std::as_bytes(std::span(values)));
    return reinterpret_cast<T*>(to);
  }
  template <class T>
  T* room(std::size_t count) {
    return reinterpret_cast<T*>(allocate(count * sizeof(T)));
  }
  template <class T>
  std::vector<T> download(const T* from, std::size_t count) {
    std::vector<T> values(count);
    read(reinterpret_cast<const std::byte*>(from), std::as_writable_bytes(std::span(values)));
    return values;
  }
};

}  // namespace outrider::gpu
