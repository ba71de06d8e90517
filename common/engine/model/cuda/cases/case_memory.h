// Memory that kernels work on: a GPU's, or the host's where fibers run them.
//
// Thread rule: one thread. Ownership: all that allocate() gives lives until clear() or the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

namespace outrider::gpu {

class CaseMemory {
 public:
  virtual ~CaseMemory() = default;

  // Memory of exactly this number of bytes, at a multiple of 64 where that leaves no room behind
  // them, else of 16; filled with bytes that no kernel makes.
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

// Memory of the host that ends where a MiB without access begins, so that a kernel which reads or
// writes behind it, a few rows away too, dies. There is another before it, right before it if it is
// whole pages.
class HostMemory final : public CaseMemory {
 public:
  HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() override { clear(); }

  std::byte* allocate(std::size_t bytes) override {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t whole = (bytes + page - 1) / page * page;
    void* const from =
        mmap(nullptr, whole + 2 * kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (from == MAP_FAILED) throw std::bad_alloc();
    pieces_.push_back({static_cast<std::byte*>(from), whole + 2 * kGuard});
    std::byte* const begin = pieces_.back().begin + kGuard;
    mprotect(begin, whole, PROT_READ | PROT_WRITE);
    std::memset(begin, 0xc5, whole);
    return begin + (whole - bytes) / 16 * 16;
  }
  void write(std::byte* to, std::span<const std::byte> bytes) override {
    std::memcpy(to, bytes.data(), bytes.size());
  }
  void read(const std::byte* from, std::span<std::byte> bytes) override {
    std::memcpy(bytes.data(), from, bytes.size());
  }
  void clear() override {
    for (const Piece& piece : pieces_) munmap(piece.begin, piece.bytes);
    pieces_.clear();
  }

 private:
  static constexpr std::size_t kGuard = std::size_t{1} << 20;
  struct Piece {
    std::byte* begin;
    std::size_t bytes;
  };
  std::vector<Piece> pieces_;
};

}  // namespace outrider::gpu
