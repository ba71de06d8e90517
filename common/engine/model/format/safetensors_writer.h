// Writes safetensors files that transformers can read, without libtorch.
//
// Thread rule: one object, one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/output_file.h"
#include "common/base/status.h"
#include "common/engine/model/format/dtype.h"

namespace outrider {

struct TensorHeader {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
};

// Begins the header of every file that is written here.
inline constexpr std::string_view kSafetensorsMark =
    R"({"__metadata__":{"format":"pt","made_by":"outrider"})";

inline constexpr OutputKind kSafetensorsFile{
    .name = "a safetensors file that Outrider wrote", .is_earlier = [](std::string_view content) {
      return content.size() > 8 && content.substr(8).starts_with(kSafetensorsMark);
    }};

// Writes a file in parts, so that it may be larger than memory. It gets its name when finish()
// succeeds, so it is never half written.
//
//   auto writer = *SafetensorsWriter::create("model.safetensors", headers);
//   for (...) writer->append(bytes);   // tensor after tensor in the order of headers
//   writer->finish();
class SafetensorsWriter final {
 public:
  // Tensors of 4-byte elements must come before those of 2, so that all are aligned.
  static Result<std::unique_ptr<SafetensorsWriter>> create(
      const std::string& path, std::span<const TensorHeader> headers,
      const OutputKind& kind = kSafetensorsFile);

  // Little-endian, row-major. Fails on more bytes than the headers announce, or a full disk.
  Status append(std::span<const std::byte> bytes);
  // Fails unless all bytes were appended.
  Status finish();

 private:
  SafetensorsWriter(std::string path, OutputFile output)
      : path_(std::move(path)), output_(std::move(output)) {}

  const std::string path_;
  OutputFile output_;
  std::uint64_t bytes_left_ = 0;
};

// A tensor in memory.
struct TensorBytes {
  TensorHeader header;
  std::span<const std::byte> bytes;
};

// Writes a whole file; reorders the tensors so that all are aligned.
Status write_safetensors(const std::string& path, std::vector<TensorBytes> tensors,
                         const OutputKind& kind = kSafetensorsFile);

}  // namespace outrider
