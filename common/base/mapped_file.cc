// SPDX-License-Identifier: Apache-2.0
#include "common/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "common/base/output_file.h"
#include "common/base/posix.h"

namespace outrider {

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  std::unique_ptr<MappedFile> file(new MappedFile());
  file->path_ = path;
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  file->descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->descriptor_ < 0) {
    const int error = errno;
    if (error == ENOENT) return not_found(path + ": no such file");
    return invalid_argument(path + ": " + errno_message(error));
  }
  struct stat found {};
  if (::fstat(file->descriptor_, &found) != 0) {
    return invalid_argument(path + ": " + errno_message(errno));
  }
  if (!S_ISREG(found.st_mode)) return invalid_argument(path + ": not a regular file");
  if (found.st_size <= 0) return data_loss(path + ": empty file");
  file->size_ = static_cast<std::size_t>(found.st_size);
  void* data = ::mmap(nullptr, file->size_, PROT_READ, MAP_SHARED, file->descriptor_, 0);
  if (data == MAP_FAILED) {
    return resource_exhausted(path + ": cannot be mapped: " + errno_message(errno));
  }
  file->data_ = static_cast<const std::byte*>(data);
  remember_input(path);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status MappedFile::copy(std::span<const std::byte> part, std::byte* to) const {
  std::size_t done = 0;
  while (done < part.size()) {
    const ssize_t got = ::pread(descriptor_, to + done, part.size() - done,
                                static_cast<off_t>(part.data() - data_ + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return data_loss(path_ + ": " + errno_message(errno));
    if (got == 0) return data_loss(path_ + ": was cut short while it was in use");
    done += static_cast<std::size_t>(got);
  }
  return {};
}

Status MappedFile::check_unchanged() const {
  struct stat found {};
  if (::fstat(descriptor_, &found) != 0) return data_loss(path_ + ": " + errno_message(errno));
  if (static_cast<std::size_t>(found.st_size) == size_) return {};
  return data_loss(path_ + ": was " + std::to_string(size_) + " bytes when loaded and is now " +
                   std::to_string(found.st_size) + "; put the file back and start again");
}

const MappedFile* file_with(std::span<const std::unique_ptr<MappedFile>> files,
                            const std::byte* address) {
  const auto found =
      std::ranges::find_if(files, [address](const auto& file) { return file->holds(address); });
  return found == files.end() ? nullptr : found->get();
}

void forget_pages(std::span<const std::byte> part) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGE_SIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t begin = address / page * page;  // the first page was read before
  const std::uintptr_t end = (address + part.size()) / page * page;
  if (begin >= end) return;
  // The mapping is of a file, read only: nothing is lost.
  ::madvise(const_cast<std::byte*>(part.data()) - (address - begin), end - begin, MADV_DONTNEED);
}

}  // namespace outrider
