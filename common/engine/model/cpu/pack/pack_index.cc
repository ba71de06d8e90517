// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/pack/pack_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <tuple>

#include "common/base/json_record.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/cpu/pack/pack_checksum.h"

namespace outrider {
namespace {

constexpr std::uint64_t kVersion = 3;  // raise it when what kernels read has another layout
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

// The type of matrices whose values index a table: a format of kQuantized.
constexpr std::uint8_t kQuantizedByTable = 4;

// Only values that a kernel knows and describe_matrix() writes.
bool is_known_format(const PackMatrix& matrix) {
  if (matrix.scales > static_cast<std::uint8_t>(ScaleType::kMultiples)) return false;
  const QuantFormat format = matrix_of(matrix).format;
  if (matrix.type < static_cast<std::uint8_t>(WeightType::kQuantized)) {
    return format == QuantFormat{};
  }
  if (matrix.type > kQuantizedByTable) return false;
  if (format.has_table)
    return format == QuantFormat{.bits = 4, .scales = format.scales, .has_table = true};
  if (format.bits == 6) {
    return format == QuantFormat{.bits = 6, .scale_group = 16, .scales = ScaleType::kMultiples};
  }
  return (format.bits == 8 || format.bits == 4) &&
         (format.scale_group == 32 || format.scale_group == 16);
}

std::string shown_format(const PackMatrix& matrix) {
  return "type " + std::to_string(matrix.type) + ", bits " + std::to_string(matrix.bits) +
         ", scale_group " + std::to_string(matrix.scale_group) + ", scales " +
         std::to_string(matrix.scales) + ", has_minimum " + std::to_string(matrix.has_minimum);
}

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) {
  return (bytes + to - 1) / to * to;
}

Status must_be(const std::string& what, const std::string& field, std::uint64_t value,
               std::uint64_t expected) {
  if (value == expected) return {};
  return data_loss(what + ": " + field + " is " + std::to_string(value) + ", must be " +
                   std::to_string(expected));
}

// The place of a matrix, a tensor or a file.
struct Part {
  std::string field;  // "matrices[3]"
  std::string_view name;
  std::uint64_t extent;
  std::uint64_t offset;
  std::uint64_t bytes;

  std::string of(const char* member) const {
    return field + " (" + printable(name) + ")." + member;
  }
};

// Shapes are already checked.
std::vector<Part> parts_of(const PackIndex& index) {
  std::vector<Part> parts;
  const auto field = [](const char* list, std::size_t i) {
    return list + ("[" + std::to_string(i) + "]");
  };
  for (std::size_t i = 0; i < index.matrices.size(); ++i) {
    const PackMatrix& matrix = index.matrices[i];
    parts.push_back({field("matrices", i), matrix.name, matrix.extent, matrix.offset,
                     static_cast<std::uint64_t>(bytes_of(matrix_of(matrix)))});
  }
  const auto add = [&](const char* list, const auto& from) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      parts.push_back(
          {field(list, i), from[i].name, from[i].extent, from[i].offset, from[i].bytes});
    }
  };
  add("files", index.files);
  add("tensors", index.tensors);
  return parts;
}

Status check_matrix(const PackMatrix& matrix, const std::string& field) {
  if (!is_known_format(matrix)) {
    return data_loss(field + ": no kernel knows " + shown_format(matrix));
  }
  if (matrix.outputs < 1 || matrix.outputs > kMaxSide || matrix.inputs < 1 ||
      matrix.inputs > kMaxSide / 4) {  // so at most 2^29 * 2^31 weights of 5 bytes: no overflow
    return data_loss(field + ": outputs " + std::to_string(matrix.outputs) + ", inputs " +
                     std::to_string(matrix.inputs) + ": must be from 1 to " +
                     std::to_string(kMaxSide) + " and to " + std::to_string(kMaxSide / 4));
  }
  return {};
}

// The extents must fill the file between header and index: each begins at the first free page.
Status check_extents(const PackIndex& index, std::uint64_t end, const std::string& what) {
  std::uint64_t free = kPackPage;
  for (std::size_t i = 0; i < index.extents.size(); ++i) {
    const PackExtent& extent = index.extents[i];
    const std::string field = "extents[" + std::to_string(i) + "]";
    OUTRIDER_RETURN_IF_ERROR(must_be(what, field + ".offset", extent.offset, free));
    if (extent.offset > end || extent.bytes > end - extent.offset) {
      return data_loss(what + ": " + field + ".bytes is " + std::to_string(extent.bytes) +
                       ", beyond the index at " + std::to_string(end));
    }
    free = round_up(extent.offset + extent.bytes, kPackPage);
  }
  return must_be(what, "index_offset", end, free);
}

// The parts must fill their extent in the order of their offsets, each at the first free aligned
// place: so none overlaps another, none lies outside, and checksums cover them all.
Status check_parts(const PackIndex& index, const std::string& what) {
  std::vector<Part> parts = parts_of(index);
  std::ranges::stable_sort(parts, {}, [](const Part& part) {
    return std::tuple(part.extent, part.offset, part.bytes > 0);
  });
  auto next = parts.begin();
  for (std::uint64_t e = 0; e < index.extents.size(); ++e) {
    const PackExtent& extent = index.extents[static_cast<std::size_t>(e)];
    const std::uint64_t end = extent.offset + extent.bytes;
    std::uint64_t used = extent.offset;
    for (; next != parts.end() && next->extent == e; ++next) {
      OUTRIDER_RETURN_IF_ERROR(
          must_be(what, next->of("offset"), next->offset, round_up(used, kPackAlignment)));
      if (next->offset > end || next->bytes > end - next->offset) {
        return data_loss(what + ": " + next->of("bytes") + " is " + std::to_string(next->bytes) +
                         ", beyond the end of extents[" + std::to_string(e) + "] at " +
                         std::to_string(end));
      }
      used = next->offset + next->bytes;
    }
    OUTRIDER_RETURN_IF_ERROR(must_be(what, "extents[" + std::to_string(e) + "].bytes", extent.bytes,
                                     used - extent.offset));
  }
  if (next != parts.end()) {
    return data_loss(what + ": " + next->of("extent") + " is " + std::to_string(next->extent) +
                     ", must be below " + std::to_string(index.extents.size()));
  }
  return {};
}

// For matrices, tensors or files.
template <typename Entry>
Status check_names(const std::vector<Entry>& entries, const char* list, const std::string& what) {
  std::set<std::string_view> names;
  for (const Entry& entry : entries) {
    if (names.insert(entry.name).second) continue;
    return data_loss(what + ": " + list + ": the name " + printable(entry.name) + " appears twice");
  }
  return {};
}

Status check_index(const PackIndex& index, std::uint64_t end, const std::string& what) {
  for (const PackMatrix& matrix : index.matrices) {
    OUTRIDER_RETURN_IF_ERROR(check_matrix(matrix, what + ": matrix " + printable(matrix.name)));
  }
  OUTRIDER_RETURN_IF_ERROR(check_names(index.matrices, "matrices", what));
  OUTRIDER_RETURN_IF_ERROR(check_names(index.tensors, "tensors", what));
  OUTRIDER_RETURN_IF_ERROR(check_names(index.files, "files", what));
  OUTRIDER_RETURN_IF_ERROR(check_extents(index, end, what));
  return check_parts(index, what);
}

}  // namespace

PackMatrix describe_matrix(const std::string& name, const WeightMatrix& matrix) {
  PackMatrix described;
  described.name = name;
  described.type =
      matrix.format.has_table ? kQuantizedByTable : static_cast<std::uint8_t>(matrix.type);
  described.bits = matrix.format.bits;
  described.scale_group = matrix.format.scale_group;
  described.scales = static_cast<std::uint8_t>(matrix.format.scales);
  described.has_minimum = matrix.format.has_minimum;
  described.outputs = matrix.outputs;
  described.inputs = matrix.inputs;
  return described;
}

WeightMatrix matrix_of(const PackMatrix& matrix) {
  const bool has_table = matrix.type == kQuantizedByTable;
  return {.type = has_table ? WeightType::kQuantized : static_cast<WeightType>(matrix.type),
          .format = {.bits = matrix.bits,
                     .scale_group = matrix.scale_group,
                     .scales = static_cast<ScaleType>(matrix.scales),
                     .has_minimum = matrix.has_minimum,
                     .has_table = has_table},
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
  if (file.size() < kPackPage)
    return data_loss(what + ": " + std::to_string(file.size()) +
                     " bytes are too short for a file of weights");
  std::memcpy(&header, file.data(), sizeof(header));
  if (std::string_view(header.magic.data(), header.magic.size()) != kPackMagic)
    return data_loss(what + ": not a file of prepared weights");
  if (header.version == other_byte_order(kVersion)) {
    return data_loss(what +
                     ": written by a machine of the other byte order (big-endian); this one is "
                     "little-endian");
  }
  if (header.version != kVersion) {
    return data_loss(what + ": of version " + std::to_string(header.version) + ", not " +
                     std::to_string(kVersion));
  }
  if (header.file_bytes != file.size()) {
    return data_loss(what + ": file_bytes is " + std::to_string(header.file_bytes) +
                     ", but the file has " + std::to_string(file.size()));
  }
  if (header.index_offset > file.size() || header.index_bytes > kMaxIndexBytes ||
      header.index_bytes != file.size() - header.index_offset) {
    return data_loss(what + ": index_offset " + std::to_string(header.index_offset) +
                     " and index_bytes " + std::to_string(header.index_bytes) +
                     " do not end with the file's " + std::to_string(file.size()) +
                     " bytes, or are more than " + std::to_string(kMaxIndexBytes));
  }
  const auto bytes = file.subspan(static_cast<std::size_t>(header.index_offset));
  if (pack_checksum(bytes) != header.index_checksum) {
    return data_loss(what + ": the checksum of the index is wrong: the file is damaged");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, what));
  OUTRIDER_ASSIGN_OR_RETURN(PackIndex index, read_json<PackIndex>(json, what));
  OUTRIDER_RETURN_IF_ERROR(check_index(index, header.index_offset, what));
  return index;
}

}  // namespace outrider
