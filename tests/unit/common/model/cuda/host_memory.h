// Memory of the host that ends where a page without access begins, so that a kernel which reads or
// writes behind it dies.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <vector>

#include "bench/gpu/device_memory.h"

namespace outrider::gpu {

class HostMemory final : public DeviceMemory {
 public:
  HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() override { clear(); }

  std::byte* allocate(std::size_t bytes) override {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t whole = (bytes + page - 1) / page * page;
    void* const from =
        mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (from == MAP_FAILED) throw std::bad_alloc();
    auto* const begin = static_cast<std::byte*>(from);
    mprotect(begin + whole, page, PROT_NONE);
    pieces_.push_back({begin, whole + page});
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
  struct Piece {
    std::byte* begin;
    std::size_t bytes;
  };
  std::vector<Piece> pieces_;
};

}  // namespace outrider::gpu
