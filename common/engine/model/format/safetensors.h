// safetensors files: 8 bytes of header length (little-endian), a JSON header, the tensors' bytes.
//
// Files are not trusted: the header is at most 100 MB, its nesting bounded, names unique, shapes
// and sizes checked for overflow, and the tensors must fill the file without gap, overlap or rest.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/format/dtype.h"

namespace outrider {

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;
inline constexpr std::size_t kMaxSafetensorsTensors = 200'000;

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // from the start of the file; aligned to the element
  std::uint64_t end = 0;
};

// The tensors of a whole file's bytes, in file order. `what` names the file in errors, which are
// kDataLoss for a broken file and kUnimplemented for an unsupported dtype.
Result<std::vector<SafetensorsEntry>> parse_safetensors(std::span<const std::byte> file,
                                                        const std::string& what);

// The bytes of a tensor of that shape; an error if a dimension is negative or the product exceeds
// 2^62.
Result<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape);

// The text of a model.safetensors.index.json as tensor name to file name. File names are plain
// names ending in ".safetensors": no folder and no URL, so that none refers to a file outside the
// model directory. `what` names the index in errors.
Result<std::map<std::string, std::string>> parse_weight_index(std::string_view text,
                                                              const std::string& what);

}  // namespace outrider
