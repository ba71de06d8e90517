// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/pack/pack_checksum.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "common/base/posix.h"

namespace outrider {
namespace {

constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;
constexpr std::size_t kReadBytes = std::size_t{256} << 10;  // fits a core's cache

// Fails with the system's reason if the file does not have all the bytes.
Status read_exactly(const UniqueFd& file, std::uint64_t offset, std::span<std::byte> buffer) {
  while (!buffer.empty()) {
    const ssize_t got =
        ::pread(file.get(), buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return data_loss(errno_message(errno) + "; the disk or its connection has failed");
    if (got == 0) return data_loss("the file ends within it");
    offset += static_cast<std::uint64_t>(got);
    buffer = buffer.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace

void PackChecksum::add(std::span<const std::byte> bytes) {
  std::array<std::uint64_t, 4> sums = sums_;
  std::size_t at = 0;
  for (; at + kPart <= bytes.size(); at += kPart) {
    std::array<std::uint64_t, 4> words{};
    std::memcpy(words.data(), bytes.data() + at, kPart);
    for (std::size_t i = 0; i < 4; ++i) {
      sums[i] = (sums[i] ^ words[i]) * kFactor;
      sums[i] ^= sums[i] >> 29;
    }
  }
  sums_ = sums;
  for (; at < bytes.size(); ++at) {
    rest_ = (rest_ ^ std::to_integer<std::uint64_t>(bytes[at])) * kFactor;
  }
}

std::uint64_t PackChecksum::value() const {
  std::uint64_t sum = rest_;
  for (const std::uint64_t part : sums_) sum = (sum ^ part) * kFactor ^ part >> 31;
  return sum;
}

std::uint64_t pack_checksum(std::span<const std::byte> bytes) {
  PackChecksum sum(bytes.size());
  sum.add(bytes);
  return sum.value();
}

Status check_extent(const std::string& path, const PackExtent& extent, const std::string& what) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return data_loss(what + ": " + errno_message(errno));
  PackChecksum sum(extent.bytes);
  std::vector<std::byte> buffer(kReadBytes);
  for (std::uint64_t at = 0; at < extent.bytes; at += kReadBytes) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(kReadBytes, extent.bytes - at));
    const Status read = read_exactly(file, extent.offset + at, {buffer.data(), count});
    if (!read.ok()) return read.with_context(what);
    sum.add({buffer.data(), count});
  }
  if (sum.value() == extent.checksum) return {};
  return data_loss(what + ": its checksum is wrong: the file is damaged; pack it again");
}

}  // namespace outrider
