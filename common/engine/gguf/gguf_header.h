// One GGUF file, versions 2 and 3, little-endian: a header, keys with values, the tensors' names,
// types and shapes, then their bytes.
//
// Files are not trusted: each count, length, dimension and offset is checked against the bytes that
// are present before it is used, and no more is allocated than the file has bytes for. Keys and
// names are unique; tensors lie inside the file, aligned and without overlap.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/gguf/gguf_metadata.h"
#include "common/engine/gguf/gguf_types.h"

namespace outrider {

inline constexpr std::uint64_t kMaxGgufKeys = 65'536;
inline constexpr std::uint64_t kMaxGgufTensors = 200'000;

struct GgufTensor {
  std::string name;
  GgufTensorType type = GgufTensorType::kF32;
  // Row-major, [rows, columns]; the file has the reverse order. The last dimension is whole blocks.
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

struct GgufHeader {
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in the order of the header
};

// `what` names the file in errors, which are kDataLoss for a broken file, and kUnimplemented for a
// version, byte order or tensor type that we do not read. Views point into `file`.
Result<GgufHeader> parse_gguf(std::span<const std::byte> file, const std::string& what);

}  // namespace outrider
