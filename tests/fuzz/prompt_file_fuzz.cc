// A file of prompts: any bytes give prompts, or an error that names the file. The file is in
// memory. SPDX-License-Identifier: Apache-2.0
#include "bench/harness/prompt_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int kFile = memfd_create("prompts", MFD_CLOEXEC);
  static const std::string kPath = "/proc/self/fd/" + std::to_string(kFile);
  OUTRIDER_CHECK(ftruncate(kFile, 0) == 0);
  OUTRIDER_CHECK(pwrite(kFile, data, size, 0) == static_cast<ssize_t>(size));
  const auto prompts = outrider::read_prompt_file(kPath, 0);
  if (!prompts.ok()) {
    OUTRIDER_CHECK(prompts.status().message().find(kPath) != std::string::npos);
    return 0;
  }
  OUTRIDER_CHECK(!prompts->empty());
  for (const auto& line : *prompts) OUTRIDER_CHECK(line.name.starts_with(kPath));
  return 0;
}
