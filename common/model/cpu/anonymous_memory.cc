// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/anonymous_memory.h"

#include <sys/mman.h>
#include <unistd.h>

namespace outrider {

Result<AnonymousMemory> AnonymousMemory::make(std::int64_t bytes, const std::string& what,
                                              const std::string& remedy) {
  const std::int64_t machine =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  void* data = MAP_FAILED;
  if (bytes <= machine) {
    data = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (data == MAP_FAILED) {
    return resource_exhausted(what + " needs " + std::to_string(bytes >> 20) +
                              " MiB; this machine has " + std::to_string(machine >> 20) +
                              " MiB. Remedy: " + remedy);
  }
  madvise(data, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);  // a hint; may fail
  AnonymousMemory memory;
  memory.data_ = data;
  memory.bytes_ = static_cast<std::size_t>(bytes);
  return memory;
}

AnonymousMemory::~AnonymousMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace outrider
