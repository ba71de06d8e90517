// Writes a file of prepared weights (pack_index.h), whole or not at all: under another name until
// it is complete and on disk.
//
//   (begin_extent add*)* finish
//
// Thread rule: one thread. Ownership: matrices are the caller's; an unfinished file is removed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/model/cpu/kernels/kernels.h"
#include "common/model/cpu/pack/pack_index.h"

namespace outrider {

class PackWriter final {
 public:
  // The folder must be there. Errors: INVALID_ARGUMENT with the system's words.
  static Result<std::unique_ptr<PackWriter>> create(const std::string& path);
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  Status begin_extent();
  Status add(const std::string& name, const WeightMatrix& matrix);
  Status finish(const std::string& fingerprint, const std::string& arithmetic);

 private:
  PackWriter(std::string path, std::string partial, int descriptor);
  Status write(std::span<const std::byte> bytes);
  Status fill_up(std::uint64_t alignment);
  Status end_extent();
  Status failure(int error) const;

  const std::string path_;
  const std::string partial_;  // the name until it is complete
  int descriptor_;
  std::uint64_t at_ = 0;
  PackIndex index_;
  std::vector<std::byte> extent_;  // the current one
};

}  // namespace outrider
