// Converted weights kept on disk from one start to the next.
//
// One file for each model and dtype, in the cache's folder. A file that does not fit any more, for
// another kernel version, other weights or damage, is made again and replaced. A cache that cannot
// be written costs time, but never prevents a start.
//
// Thread rule: one thread; the pool's threads work inside. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/mapped_file.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/cpu/pack/pack_index.h"

namespace outrider {

// Called with messages for the user: that a cache was not used, and why.
using CacheNotice = std::function<void(const std::string&)>;

// $XDG_CACHE_HOME/outrider, or ~/.cache/outrider; empty if neither is set.
std::string default_cache_dir();

// Weights in a mapped cache file.
class CachedWeights final {
 public:
  CachedWeights(std::unique_ptr<MappedFile> file, PackIndex index)
      : file_(std::move(file)), index_(std::move(index)) {}

  // The matrix of that name with its data; nothing for another name.
  std::optional<WeightMatrix> find(const std::string& name) const;

 private:
  std::unique_ptr<MappedFile> file_;
  PackIndex index_;
};

// A matrix for the cache; matrices of one layer are adjacent.
struct NamedMatrix {
  std::string name;
  WeightMatrix matrix;
  std::int64_t layer = 0;
};

class WeightCache final {
 public:
  // directory: empty for no cache.
  WeightCache(std::string directory, CacheNotice notice)
      : directory_(std::move(directory)), notice_(std::move(notice)) {}

  bool is_on() const { return !directory_.empty(); }

  // The cached weights for this arithmetic; null if there are none, with a notice unless no file
  // exists. Reads everything and checks checksums.
  std::shared_ptr<const CachedWeights> open(const std::string& name, const std::string& fingerprint,
                                            const std::string& arithmetic, ThreadPool& pool) const;

  // Writes the weights to the cache. A failure gives a notice.
  void keep(const std::string& name, const std::string& fingerprint, const std::string& arithmetic,
            std::span<const NamedMatrix> matrices) const;

 private:
  Result<std::shared_ptr<const CachedWeights>> read(const std::string& path,
                                                    const std::string& fingerprint,
                                                    const std::string& arithmetic,
                                                    ThreadPool& pool) const;
  Status write(const std::string& path, const std::string& name, const std::string& fingerprint,
               const std::string& arithmetic, std::span<const NamedMatrix> matrices) const;
  void notify(const std::string& text) const {
    if (notice_) notice_(text);
  }

  std::string directory_;
  CacheNotice notice_;
};

}  // namespace outrider
