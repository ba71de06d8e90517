// The memory that this process may still take.
//
// Thread rule: any thread; reads files of procfs and sysfs. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace outrider {

// The least of the machine's available memory, what the control groups above this process still
// allow, and what it may still map, in bytes. The page cache of files counts as available. root:
// parent of proc and sys; "" except in tests.
std::int64_t free_memory(const std::string& root = "");

// The part of so many free bytes that one large user of memory may take: nine tenths of what is
// left beside 256 MiB for the rest of the program; 0 if nothing is left.
std::int64_t room_beside_program(std::int64_t free_bytes);

}  // namespace outrider
