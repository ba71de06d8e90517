// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/pack/direct_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/base/posix.h"

namespace outrider {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;
constexpr std::size_t kAlignment = 4096;

// False where the file system does not support it.
bool set_direct(int descriptor, bool direct) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 &&
         ::fcntl(descriptor, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

}  // namespace

void DirectFile::Free::operator()(std::byte* buffer) const {
  std::free(buffer);
}

DirectFile::DirectFile(int descriptor, std::string path)
    : descriptor_(descriptor),
      path_(std::move(path)),
      direct_(set_direct(descriptor_, true)),
      buffer_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBufferBytes))) {}

Status DirectFile::write(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), kBufferBytes - filled_);
    std::memcpy(buffer_.get() + filled_, bytes.data(), count);
    filled_ += count;
    bytes = bytes.subspan(count);
    if (filled_ == kBufferBytes) OUTRIDER_RETURN_IF_ERROR(flush(kBufferBytes));
  }
  return {};
}

Status DirectFile::finish(std::span<const std::byte> head) {
  if (direct_) set_direct(descriptor_, false);  // the rest is less than a block
  OUTRIDER_RETURN_IF_ERROR(flush(filled_));
  if (::lseek(descriptor_, 0, SEEK_SET) != 0) {
    return resource_exhausted(path_ + ": cannot be written: " + errno_message(errno));
  }
  OUTRIDER_RETURN_IF_ERROR(write_out(head));
  if (::fsync(descriptor_) == 0) return {};
  return resource_exhausted(path_ + ": cannot be written: " + errno_message(errno));
}

Status DirectFile::flush(std::size_t count) {
  filled_ = 0;
  return write_out({buffer_.get(), count});
}

Status DirectFile::write_out(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    // Some file systems accept the flag but refuse the write.
    if (written < 0 && errno == EINVAL && direct_) {
      direct_ = false;
      if (set_direct(descriptor_, false)) continue;
    }
    if (written <= 0) {
      return resource_exhausted(
          path_ + ": cannot be written: " + errno_message(written < 0 ? errno : ENOSPC));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace outrider
