// A regular file mapped for reading.
//
// Thread rule: immutable; read from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/base/status.h"

namespace outrider {

class MappedFile final {
 public:
  // Errors: kNotFound; kInvalidArgument for a path that is no regular file or may not be read;
  // kDataLoss if empty.
  static Result<std::unique_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Copies a part of bytes(). kDataLoss where touching it would be a SIGBUS: the file was cut
  // short, or its disk fails.
  Status copy(std::span<const std::byte> part, std::byte* to) const;

  // Whether an address lies in bytes().
  bool holds(const std::byte* address) const {
    return std::less_equal<>()(data_, address) && std::less<>()(address, data_ + size_);
  }

  // kDataLoss if the file's size has changed since it was mapped: reading past its end would be a
  // SIGBUS.
  Status check_unchanged() const;

 private:
  MappedFile() = default;

  std::string path_;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// The file that an address lies in; nullptr if it is none of them.
const MappedFile* file_with(std::span<const std::unique_ptr<MappedFile>> files,
                            const std::byte* address);

// Releases the pages of a part of a MappedFile's bytes from our memory. They stay in the system's
// cache, and are mapped again when they are read again. A page at the end that belongs to what
// follows, too, stays.
void forget_pages(std::span<const std::byte> part);

}  // namespace outrider
