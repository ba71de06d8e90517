// A new file, written from its start without the page cache where the system allows that: a file
// larger than memory would evict everything else.
//
// Thread rule: one thread. Errors: RESOURCE_EXHAUSTED with the system's reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/status.h"

namespace outrider {

class DirectFile final {
 public:
  // descriptor: open while this lives; path: for errors.
  DirectFile(int descriptor, std::string path);

  Status write(std::span<const std::byte> bytes);
  // Bytes written so far.
  std::uint64_t size() const { return size_; }

  // Overwrites the file's first bytes, and returns when everything is on the disk.
  Status finish(std::span<const std::byte> head);

 private:
  struct Free {
    void operator()(std::byte* buffer) const;
  };

  Status flush(std::size_t count);
  Status write_out(std::span<const std::byte> bytes);

  const int descriptor_;
  std::string path_;
  bool direct_ = false;
  std::uint64_t size_ = 0;
  std::unique_ptr<std::byte, Free> buffer_;  // aligned for direct writes
  std::size_t filled_ = 0;
};

}  // namespace outrider
