// A file of prepared weights: every extent, matrix, tensor and text that is let through lies in it.
// The input is the file, and in another the index behind a header that fits it: no checksum stands
// between the index and what reads it.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <span>
#include <string>

#include "common/model/cpu/kernels/weight_memory.h"
#include "common/model/cpu/pack/pack_checksum.h"
#include "common/model/cpu/pack/pack_index.h"

namespace {

void check(bool condition) {
  if (!condition) __builtin_trap();
}

void read_file(std::span<const std::byte> file) {
  const auto index = outrider::parse_pack_index(file, "fuzzed");
  if (!index.ok()) return;
  for (const outrider::PackExtent& extent : index->extents) {
    check(extent.offset % outrider::kPackPage == 0 && extent.offset <= file.size() &&
          extent.bytes <= file.size() - extent.offset);
    (void)outrider::pack_checksum(file.subspan(extent.offset, extent.bytes));
  }
  for (const outrider::PackMatrix& matrix : index->matrices) {
    check(matrix.extent < index->extents.size());
    const outrider::PackExtent& extent = index->extents[matrix.extent];
    const auto bytes = static_cast<std::uint64_t>(bytes_of(matrix_of(matrix)));
    check(matrix.offset % outrider::kPackAlignment == 0 && matrix.offset >= extent.offset &&
          bytes <= extent.bytes && matrix.offset - extent.offset <= extent.bytes - bytes);
  }
  const auto check_part = [&](const auto& part) {
    check(part.extent < index->extents.size());
    const outrider::PackExtent& extent = index->extents[part.extent];
    check(part.offset >= extent.offset && part.bytes <= extent.bytes &&
          part.offset - extent.offset <= extent.bytes - part.bytes);
  };
  for (const outrider::PackTensor& tensor : index->tensors) check_part(tensor);
  for (const outrider::PackedFile& packed : index->files) check_part(packed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  read_file(bytes);
  constexpr std::uint64_t kExtents = 64 << 10;
  std::string file = outrider::write_pack_header(outrider::kPackPage + kExtents, bytes);
  file.append(kExtents, '\0');
  file.append(reinterpret_cast<const char*>(data), size);
  read_file(std::as_bytes(std::span(file.data(), file.size())));
  return 0;
}
