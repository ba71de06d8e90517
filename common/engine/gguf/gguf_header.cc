// SPDX-License-Identifier: Apache-2.0
#include "common/engine/gguf/gguf_header.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "common/engine/gguf/gguf_cursor.h"

namespace outrider {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = 1 << 16;
constexpr std::size_t kMaxKeyBytes = 65'535;
constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::uint32_t kMaxDimensions = 4;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 60;
// The fewest bytes of a key with its value, and of a tensor: empty name, one dimension.
constexpr std::uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

struct Extent {
  std::uint64_t offset = 0;  // from the start of the data
  std::uint64_t size = 0;
};

Status read_version(GgufCursor& cursor, const std::string& what) {
  const std::string_view magic = cursor.skip(kMagic.size(), "the magic number");
  if (cursor.status().ok() && magic != kMagic) {
    if (magic == "OUTR") {
      return data_loss(what +
                       ": is a pack of outrider-edge, which streams it from flash. Remedy: " +
                       "outrider-edge --target, or the model that it was made of");
    }
    return data_loss(what + ": begins with " + printable(magic) +
                     " instead of \"GGUF\"; is it a GGUF file?");
  }
  const std::uint32_t version = cursor.u32("the version");
  OUTRIDER_RETURN_IF_ERROR(cursor.status());
  if (version == 2 || version == 3) return {};
  if (version != 0 && (version & 0xffff) == 0) {
    return unimplemented(what + ": a big-endian GGUF file; only little-endian ones are read");
  }
  return unimplemented(what + ": GGUF version " + std::to_string(version) +
                       " is not supported; supported are 2 and 3");
}

std::uint64_t read_count(GgufCursor& cursor, const char* field, std::uint64_t most) {
  const std::uint64_t count = cursor.u64(field);
  if (count > most) {
    cursor.fail(std::string(field) + " is " + std::to_string(count) + ", at most " +
                std::to_string(most) + " are read");
    return 0;
  }
  return count;
}

// Checks a count against the bytes that are left, before allocation.
void check_room(GgufCursor& cursor, std::uint64_t count, std::uint64_t bytes_each, const char* of) {
  if (count > cursor.remaining() / bytes_each) {
    cursor.fail(std::to_string(count) + " " + of + " in " + std::to_string(cursor.remaining()) +
                " bytes: cut short or damaged, download it again");
  }
}

GgufValueType read_type(GgufCursor& cursor) {
  const std::uint32_t number = cursor.u32("the value's type");
  const auto type = gguf_value_type(number);
  if (!type) cursor.fail("value type number " + std::to_string(number) + " is unknown");
  return type.value_or(GgufValueType::kUint8);
}

// `count` strings, or values of a fixed size, one after another.
std::string_view read_elements(GgufCursor& cursor, GgufValueType type, std::uint64_t count) {
  const std::size_t size = value_bytes(type);
  check_room(cursor, count, size == 0 ? sizeof(std::uint64_t) : size, "values");
  if (!cursor.status().ok()) return {};
  if (size > 0) return cursor.skip(count * size, "a value");
  const std::uint64_t begin = cursor.position();
  std::string_view last;
  const std::string_view first = cursor.skip(0, "");
  for (std::uint64_t i = 0; i < count && cursor.status().ok(); ++i) last = cursor.text("a string");
  if (!cursor.status().ok()) return {};
  return {first.data(), static_cast<std::size_t>(cursor.position() - begin)};
}

GgufValue read_value(GgufCursor& cursor) {
  GgufValue value;
  value.type = read_type(cursor);
  if (value.type == GgufValueType::kArray) {
    value.is_array = true;
    value.type = read_type(cursor);
    value.count = cursor.u64("the array's length");
    if (value.type == GgufValueType::kArray) cursor.fail("an array of arrays is not read");
  }
  value.bytes = read_elements(cursor, value.type, value.count);
  const auto is_bool = [](char byte) { return byte == 0 || byte == 1; };
  if (value.type == GgufValueType::kBool &&
      !std::all_of(value.bytes.begin(), value.bytes.end(), is_bool)) {
    cursor.fail("a bool that is neither 0 nor 1");
  }
  return value;
}

Status read_metadata(GgufCursor& cursor, std::uint64_t count, GgufMetadata& metadata) {
  check_room(cursor, count, kMinKeyBytes, "keys");
  for (std::uint64_t i = 0; i < count && cursor.status().ok(); ++i) {
    cursor.set_place("key number " + std::to_string(i) + ": ");
    const std::string_view key = cursor.text("the key");
    if (key.empty() || key.size() > kMaxKeyBytes) {
      cursor.fail("a key of " + std::to_string(key.size()) + " bytes, must be from 1 to " +
                  std::to_string(kMaxKeyBytes));
    }
    cursor.set_place("key " + printable(key) + ": ");
    const GgufValue value = read_value(cursor);
    if (cursor.status().ok() && !metadata.add(key, value)) cursor.fail("appears twice");
  }
  cursor.set_place("");
  return cursor.status();
}

// The elements of the shape; fails the cursor if one dimension or the product is out of bounds.
std::int64_t read_shape(GgufCursor& cursor, std::vector<std::int64_t>& shape) {
  const std::uint32_t dimensions = cursor.u32("the number of dimensions");
  if (dimensions == 0 || dimensions > kMaxDimensions) {
    cursor.fail(std::to_string(dimensions) + " dimensions, must be from 1 to " +
                std::to_string(kMaxDimensions));
    return 0;
  }
  std::int64_t elements = 1;
  for (std::uint32_t i = 0; i < dimensions && cursor.status().ok(); ++i) {
    const std::uint64_t size = cursor.u64("a dimension");
    if (size == 0 || size > static_cast<std::uint64_t>(kMaxElements / elements)) {
      cursor.fail("dimension " + std::to_string(size) +
                  (size == 0 ? " is empty" : " is too large: the product of the shape overflows"));
      return 0;
    }
    shape.push_back(static_cast<std::int64_t>(size));
    elements *= shape.back();
  }
  std::reverse(shape.begin(), shape.end());
  return elements;
}

Status read_tensor(GgufCursor& cursor, const std::string& what, GgufTensor& tensor,
                   Extent& extent) {
  tensor.name = cursor.text("the name").substr(0, kMaxNameBytes + 1);
  if (tensor.name.empty() || tensor.name.size() > kMaxNameBytes) {
    cursor.fail("a name that is empty or longer than " + std::to_string(kMaxNameBytes) + " bytes");
  }
  cursor.set_place("tensor " + printable(tensor.name) + ": ");
  const std::int64_t elements = read_shape(cursor, tensor.shape);
  const std::uint32_t number = cursor.u32("the type");
  extent.offset = cursor.u64("the offset");
  OUTRIDER_RETURN_IF_ERROR(cursor.status());
  const GgufTensorTypeInfo* type = find_gguf_tensor_type(number);
  if (type == nullptr) {
    return unimplemented(what + ": tensor " + printable(tensor.name) + " has type " +
                         foreign_tensor_type_name(number) + "; supported are " +
                         supported_tensor_types());
  }
  tensor.type = type->type;
  if (tensor.shape.back() % type->block_elements != 0) {
    cursor.fail("rows of " + std::to_string(tensor.shape.back()) +
                " elements are not whole blocks of " + std::to_string(type->block_elements) +
                ", as " + type->name + " has them");
  }
  extent.size = static_cast<std::uint64_t>(elements / type->block_elements) *
                static_cast<std::uint64_t>(type->block_bytes);
  return cursor.status();
}

Result<std::uint64_t> alignment_of(const GgufMetadata& metadata) {
  constexpr std::string_view kKey = "general.alignment";
  if (!metadata.has(kKey)) return kDefaultAlignment;
  OUTRIDER_ASSIGN_OR_RETURN(const std::int64_t alignment, metadata.integer(kKey));
  // At least 8, so that every element is aligned in the mapping.
  if (alignment < 8 || alignment > static_cast<std::int64_t>(kMaxAlignment) ||
      !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
    return data_loss(metadata.what() + ": " + std::string(kKey) + " is " +
                     std::to_string(alignment) + ", must be a power of two from 8 to " +
                     std::to_string(kMaxAlignment));
  }
  return static_cast<std::uint64_t>(alignment);
}

// Turns extents into views of `data`.
Status place_tensors(std::span<const std::byte> data, std::uint64_t alignment,
                     const std::string& what, const std::vector<Extent>& extents,
                     std::vector<GgufTensor>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return extents[a].offset < extents[b].offset;
  });
  std::uint64_t end = 0;
  for (const std::size_t i : order) {
    const Extent& extent = extents[i];
    const std::string tensor = what + ": tensor " + printable(tensors[i].name) + ": ";
    if (extent.offset % alignment != 0) {
      return data_loss(tensor + "offset " + std::to_string(extent.offset) +
                       " is not a multiple of the alignment, " + std::to_string(alignment));
    }
    if (extent.offset > data.size() || extent.size > data.size() - extent.offset) {
      return data_loss(tensor + std::to_string(extent.size) + " bytes at offset " +
                       std::to_string(extent.offset) + " do not lie in the file's " +
                       std::to_string(data.size()) +
                       " bytes of data: cut short or damaged, download it again");
    }
    if (extent.offset < end) {
      return data_loss(tensor + "offset " + std::to_string(extent.offset) +
                       " lies inside the tensor before it, which ends at " + std::to_string(end));
    }
    end = extent.offset + extent.size;
    tensors[i].data = data.subspan(static_cast<std::size_t>(extent.offset),
                                   static_cast<std::size_t>(extent.size));
  }
  return {};
}

}  // namespace

Result<GgufHeader> parse_gguf(std::span<const std::byte> file, const std::string& what) {
  GgufCursor cursor(file, what);
  OUTRIDER_RETURN_IF_ERROR(read_version(cursor, what));
  const std::uint64_t num_tensors = read_count(cursor, "the number of tensors", kMaxGgufTensors);
  const std::uint64_t num_keys = read_count(cursor, "the number of keys", kMaxGgufKeys);
  OUTRIDER_RETURN_IF_ERROR(cursor.status());
  GgufHeader header{GgufMetadata(what), {}};
  OUTRIDER_RETURN_IF_ERROR(read_metadata(cursor, num_keys, header.metadata));
  OUTRIDER_ASSIGN_OR_RETURN(const std::uint64_t alignment, alignment_of(header.metadata));
  check_room(cursor, num_tensors, kMinTensorBytes, "tensors");
  OUTRIDER_RETURN_IF_ERROR(cursor.status());
  std::vector<Extent> extents(num_tensors);
  header.tensors.resize(num_tensors);
  std::set<std::string_view> names;
  for (std::uint64_t i = 0; i < num_tensors; ++i) {
    cursor.set_place("tensor number " + std::to_string(i) + ": ");
    GgufTensor& tensor = header.tensors[i];
    OUTRIDER_RETURN_IF_ERROR(read_tensor(cursor, what, tensor, extents[i]));
    if (!names.insert(tensor.name).second) {
      return data_loss(what + ": tensor " + printable(tensor.name) + " appears twice");
    }
  }
  const std::uint64_t begin = (cursor.position() + alignment - 1) / alignment * alignment;
  const std::span<const std::byte> data =
      file.subspan(static_cast<std::size_t>(std::min<std::uint64_t>(begin, file.size())));
  OUTRIDER_RETURN_IF_ERROR(place_tensors(data, alignment, what, extents, header.tensors));
  return header;
}

}  // namespace outrider
