// Writes a file of prepared weights (pack_index.h), completely or not at all.
//
//   (begin_extent (add | add_tensor | add_file)*)* finish
//
// Thread rule: one thread. Ownership: matrices are the caller's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/output_file.h"
#include "common/base/status.h"
#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/cpu/pack/direct_file.h"
#include "common/engine/model/cpu/pack/pack_index.h"

namespace outrider {

inline constexpr OutputKind kPackFile{
    .name = "a pack",
    .is_earlier = [](std::string_view content) { return content.starts_with(kPackMagic); },
    .is_stream = false};

class PackWriter final {
 public:
  // Errors are an OutputFile's.
  static Result<std::unique_ptr<PackWriter>> create(const std::string& path,
                                                    const OutputKind& kind);

  Status begin_extent();
  void add(const std::string& name, const WeightMatrix& matrix);
  // tensor: complete except extent, offset and bytes.
  void add_tensor(PackTensor tensor, std::span<const std::byte> bytes);
  void add_file(const std::string& name, std::string_view content);
  // The model's identity, as in PackIndex.
  Status finish(const std::string& name, const std::string& fingerprint,
                const std::string& arithmetic);

 private:
  PackWriter(const std::string& path, OutputFile output)
      : output_(std::move(output)), file_(output_.descriptor(), path) {}
  std::uint64_t place(std::span<const std::byte> bytes);
  Status end_extent();

  OutputFile output_;
  DirectFile file_;
  PackIndex index_;
  std::vector<std::byte> extent_;  // the current one
};

}  // namespace outrider
