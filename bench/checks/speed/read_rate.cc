// SPDX-License-Identifier: Apache-2.0
#include "bench/checks/speed/read_rate.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "common/base/clock.h"

namespace outrider {
namespace {

// The sum of all 64-bit words: cheap enough that memory is the limit.
std::uint64_t sum_words(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  const std::size_t words = bytes.size() / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i * sizeof(word), sizeof(word));
    sum += word;
  }
  return sum;
}

}  // namespace

double read_rate(ThreadPool& pool, const std::vector<std::span<const std::byte>>& memory) {
  std::atomic<std::uint64_t> sum{0};
  std::size_t total = 0;
  const TimePoint start = SystemClock().now();
  for (const auto& bytes : memory) {
    total += bytes.size();
    pool.parallel_for(static_cast<std::int64_t>(bytes.size()), 4096,
                      [&](std::int64_t begin, std::int64_t end) {
                        sum += sum_words(bytes.subspan(static_cast<std::size_t>(begin),
                                                       static_cast<std::size_t>(end - begin)));
                      });
  }
  const double seconds = to_seconds(SystemClock().now() - start);
  // The sum must be used, or the compiler leaves the loop out.
  std::fprintf(stderr, "decode: read %.1f MB at %.2f GB/s (sum %016llx)\n",
               static_cast<double>(total) / 1e6, static_cast<double>(total) / seconds / 1e9,
               static_cast<unsigned long long>(sum.load()));
  return static_cast<double>(total) / seconds;
}

}  // namespace outrider
