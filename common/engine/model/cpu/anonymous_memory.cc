// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/anonymous_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <memory>

namespace outrider {

Result<AnonymousMemory> AnonymousMemory::make(std::int64_t bytes, const std::string& what,
                                              const std::string& remedy) {
  const std::int64_t machine =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  // Huge pages begin at multiples of their size, where not every kernel maps by itself.
  constexpr std::size_t kHugePage = 2 << 20;
  const auto wanted = static_cast<std::size_t>(bytes);
  std::size_t mapped = wanted + kHugePage;
  void* data = MAP_FAILED;
  if (bytes <= machine) {
    data = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (data == MAP_FAILED) {
    return resource_exhausted(what + " needs " + std::to_string(bytes >> 20) +
                              " MiB; this machine has " + std::to_string(machine >> 20) +
                              " MiB. Remedy: " + remedy);
  }
  AnonymousMemory memory;
  memory.mapping_ = memory.data_ = data;
  memory.bytes_ = mapped;
  std::align(kHugePage, wanted, memory.data_, mapped);
  madvise(memory.data_, wanted, MADV_HUGEPAGE);  // a hint; may fail
  return memory;
}

AnonymousMemory::~AnonymousMemory() {
  if (mapping_ != nullptr) munmap(mapping_, bytes_);
}

}  // namespace outrider
