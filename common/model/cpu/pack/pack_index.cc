// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/pack/pack_index.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/json_record.h"
#include "common/model/cpu/kernels/weight_memory.h"
#include "common/model/cpu/pack/pack_checksum.h"

namespace outrider {
namespace {

constexpr std::uint64_t kVersion = 2;
constexpr std::uint64_t kMaxIndexBytes = 64 << 20;
constexpr std::int64_t kMaxSide = std::int64_t{1} << 31;

struct Header {
  std::array<char, kPackMagic.size()> magic{};
  std::uint64_t version = kVersion;
  std::uint64_t index_offset = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t index_checksum = 0;
  std::uint64_t file_bytes = 0;
};

constexpr std::uint64_t other_byte_order(std::uint64_t value) {
  std::uint64_t turned = 0;
  for (int i = 0; i < 8; ++i) turned = turned << 8 | (value >> 8 * i & 0xff);
  return turned;
}

bool is_known_format(const PackMatrix& matrix) {
  if (matrix.type > static_cast<std::uint8_t>(WeightType::kQuantized)) return false;
  const bool of_8 = matrix.bits == 8 && (matrix.scale_group == 32 || matrix.scale_group == 16);
  return of_8 || (matrix.bits == 4 && matrix.scale_group == 32);
}

Status check_extents(const PackIndex& index, std::uint64_t end, const std::string& what) {
  std::uint64_t free = kPackPage;
  for (const PackExtent& extent : index.extents) {
    if (extent.offset % kPackPage != 0 || extent.offset < free || extent.offset > end ||
        extent.bytes > end - extent.offset) {
      return data_loss(what + ": an extent of " + std::to_string(extent.bytes) + " bytes at " +
                       std::to_string(extent.offset) + " does not fit the file");
    }
    free = extent.offset + extent.bytes;
  }
  return {};
}

bool fits_extent(const PackIndex& index, std::uint64_t number, std::uint64_t offset,
                 std::uint64_t bytes) {
  if (number >= index.extents.size()) return false;
  const PackExtent& extent = index.extents[static_cast<std::size_t>(number)];
  return offset % kPackAlignment == 0 && offset >= extent.offset &&
         offset - extent.offset <= extent.bytes && bytes <= extent.bytes - (offset - extent.offset);
}

Status check_matrix(const PackIndex& index, const PackMatrix& matrix, const std::string& what) {
  const auto wrong = [&](const std::string& field) {
    return data_loss(what + ": matrix " + matrix.name.substr(0, 100) + ": " + field);
  };
  if (!is_known_format(matrix)) return wrong("unknown type");
  if (matrix.outputs < 1 || matrix.outputs > kMaxSide || matrix.inputs < 1 ||
      matrix.inputs > kMaxSide / 4) {
    return wrong("a shape of " + std::to_string(matrix.outputs) + " x " +
                 std::to_string(matrix.inputs));
  }
  // At most 2^29 inputs and 2^31 outputs of at most 5 bytes: no overflow.
  const auto bytes = static_cast<std::uint64_t>(bytes_of(matrix_of(matrix)));
  if (!fits_extent(index, matrix.extent, matrix.offset, bytes)) {
    return wrong("does not fit its extent");
  }
  return {};
}

}  // namespace

PackMatrix describe_matrix(const std::string& name, const WeightMatrix& matrix) {
  PackMatrix described;
  described.name = name;
  described.type = static_cast<std::uint8_t>(matrix.type);
  described.bits = matrix.format.bits;
  described.scale_group = matrix.format.scale_group;
  described.wide_scales = matrix.format.wide_scales;
  described.has_minimum = matrix.format.has_minimum;
  described.outputs = matrix.outputs;
  described.inputs = matrix.inputs;
  return described;
}

WeightMatrix matrix_of(const PackMatrix& matrix) {
  return {.type = static_cast<WeightType>(matrix.type),
          .format = {.bits = matrix.bits,
                     .scale_group = matrix.scale_group,
                     .wide_scales = matrix.wide_scales,
                     .has_minimum = matrix.has_minimum},
          .data = nullptr,
          .outputs = matrix.outputs,
          .inputs = matrix.inputs};
}

std::string write_pack_header(std::uint64_t index_offset, std::span<const std::byte> index) {
  Header header;
  std::ranges::copy(kPackMagic, header.magic.begin());
  header.index_offset = index_offset;
  header.index_bytes = index.size();
  header.index_checksum = pack_checksum(index);
  header.file_bytes = index_offset + index.size();
  std::string page(kPackPage, '\0');
  std::memcpy(page.data(), &header, sizeof(header));
  return page;
}

Result<PackIndex> parse_pack_index(std::span<const std::byte> file, const std::string& what) {
  Header header;
  if (file.size() < kPackPage) return data_loss(what + ": too short for a file of weights");
  std::memcpy(&header, file.data(), sizeof(header));
  if (std::string_view(header.magic.data(), header.magic.size()) != kPackMagic)
    return data_loss(what + ": not a file of prepared weights");
  if (header.version == other_byte_order(kVersion)) {
    return data_loss(what +
                     ": written by a machine of the other byte order (big-endian). Remedy: "
                     "pack the model again on one like this");
  }
  if (header.version != kVersion) {
    return data_loss(what + ": of version " + std::to_string(header.version) + ", not " +
                     std::to_string(kVersion));
  }
  if (header.file_bytes != file.size()) {
    return data_loss(what + ": has " + std::to_string(file.size()) + " bytes of " +
                     std::to_string(header.file_bytes));
  }
  if (header.index_offset > file.size() || header.index_bytes > kMaxIndexBytes ||
      header.index_bytes != file.size() - header.index_offset) {
    return data_loss(what + ": the index does not fit the file");
  }
  const auto bytes = file.subspan(static_cast<std::size_t>(header.index_offset));
  if (pack_checksum(bytes) != header.index_checksum) {
    return data_loss(what + ": the index is damaged");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, what));
  OUTRIDER_ASSIGN_OR_RETURN(PackIndex index, read_json<PackIndex>(json, what));
  OUTRIDER_RETURN_IF_ERROR(check_extents(index, header.index_offset, what));
  for (const PackMatrix& matrix : index.matrices) {
    OUTRIDER_RETURN_IF_ERROR(check_matrix(index, matrix, what));
  }
  const auto check_all = [&](const auto& parts) -> Status {
    for (const auto& part : parts) {
      if (fits_extent(index, part.extent, part.offset, part.bytes)) continue;
      return data_loss(what + ": " + part.name.substr(0, 100) + " does not fit its extent");
    }
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(check_all(index.tensors));
  OUTRIDER_RETURN_IF_ERROR(check_all(index.files));
  return index;
}

}  // namespace outrider
