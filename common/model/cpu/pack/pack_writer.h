// Writes a file of prepared weights (pack_index.h), completely or not at all: it has a temporary
// name until it is complete and on disk.
//
//   (begin_extent (add | add_tensor | add_file)*)* finish
//
// Thread rule: one thread. Ownership: matrices are the caller's; an unfinished file is removed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/model/cpu/kernels/kernels.h"
#include "common/model/cpu/pack/direct_file.h"
#include "common/model/cpu/pack/pack_index.h"

namespace outrider {

class PackWriter final {
 public:
  // The folder must exist. Errors: INVALID_ARGUMENT with the system's reason.
  static Result<std::unique_ptr<PackWriter>> create(const std::string& path);
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  Status begin_extent();
  void add(const std::string& name, const WeightMatrix& matrix);
  // tensor: complete except extent, offset and bytes.
  void add_tensor(PackTensor tensor, std::span<const std::byte> bytes);
  void add_file(const std::string& name, std::string_view content);
  // The model's identity, as in PackIndex.
  Status finish(const std::string& name, const std::string& fingerprint,
                const std::string& arithmetic);

 private:
  PackWriter(std::string path, std::string partial, UniqueFd descriptor);
  std::uint64_t place(std::span<const std::byte> bytes);
  Status end_extent();

  const std::string path_;
  const std::string partial_;  // the name until it is complete
  DirectFile file_;
  bool complete_ = false;
  PackIndex index_;
  std::vector<std::byte> extent_;  // the current one
};

}  // namespace outrider
