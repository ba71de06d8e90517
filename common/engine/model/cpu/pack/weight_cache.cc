// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/pack/weight_cache.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "common/engine/model/cpu/pack/pack_checksum.h"
#include "common/engine/model/cpu/pack/pack_writer.h"

namespace outrider {
namespace {

// The cache owns its folder, and a file that is damaged is written anew.
constexpr OutputKind kCacheFile{.name = "a file of converted weights",
                                .is_earlier = [](std::string_view) { return true; },
                                .is_stream = false,
                                .is_state = true};

// "llama-1b.0123456789abcdef.weights", valid for any model name.
std::string file_name(const std::string& name, const std::string& fingerprint,
                      const std::string& arithmetic) {
  std::string safe = name.substr(0, 60) + "-" + arithmetic.substr(0, arithmetic.find(','));
  for (char& c : safe) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_') c = '-';
  }
  return safe + "." + fingerprint.substr(0, 16) + ".weights";
}

}  // namespace

std::string default_cache_dir() {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && *xdg == '/') return std::string(xdg) + "/outrider";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.cache/outrider";
  return {};
}

std::optional<WeightMatrix> CachedWeights::find(const std::string& name) const {
  const auto found = std::ranges::find(index_.matrices, name, &PackMatrix::name);
  if (found == index_.matrices.end()) return std::nullopt;
  WeightMatrix matrix = matrix_of(*found);
  matrix.data = file_->bytes().data() + found->offset;
  return matrix;
}

std::shared_ptr<const CachedWeights> WeightCache::open(const std::string& name,
                                                       const std::string& fingerprint,
                                                       const std::string& arithmetic,
                                                       ThreadPool& pool) const {
  if (!is_on()) return nullptr;
  const std::string path = directory_ + "/" + file_name(name, fingerprint, arithmetic);
  auto kept = read(path, fingerprint, arithmetic, pool);
  if (kept.ok()) return *std::move(kept);
  if (kept.status().code() != StatusCode::kNotFound) {
    notify("converting weights again: " + kept.status().message());
  }
  return nullptr;
}

Result<std::shared_ptr<const CachedWeights>> WeightCache::read(const std::string& path,
                                                               const std::string& fingerprint,
                                                               const std::string& arithmetic,
                                                               ThreadPool& pool) const {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file->bytes();
  OUTRIDER_ASSIGN_OR_RETURN(PackIndex index, parse_pack_index(bytes, path));
  if (index.fingerprint != fingerprint || index.arithmetic != arithmetic) {
    return data_loss(path + ": it has other weights or another kernel version");
  }
  std::atomic<bool> damaged{false};
  const auto count = static_cast<std::int64_t>(index.extents.size());
  pool.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const PackExtent& extent = index.extents[static_cast<std::size_t>(i)];
      const auto part = bytes.subspan(static_cast<std::size_t>(extent.offset),
                                      static_cast<std::size_t>(extent.bytes));
      if (pack_checksum(part) != extent.checksum) damaged.store(true, std::memory_order_relaxed);
    }
  });
  if (damaged) return data_loss(path + ": damaged");
  return std::make_shared<const CachedWeights>(std::move(file), std::move(index));
}

void WeightCache::keep(const std::string& name, const std::string& fingerprint,
                       const std::string& arithmetic, std::span<const NamedMatrix> matrices) const {
  if (!is_on()) return;
  const std::string path = directory_ + "/" + file_name(name, fingerprint, arithmetic);
  const Status written = write(path, name, fingerprint, arithmetic, matrices);
  notify(written.ok() ? "kept converted weights in " + path
                      : "converted weights are not kept: " + written.message());
}

Status WeightCache::write(const std::string& path, const std::string& name,
                          const std::string& fingerprint, const std::string& arithmetic,
                          std::span<const NamedMatrix> matrices) const {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) return invalid_argument(directory_ + ": " + error.message());
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<PackWriter> writer,
                            PackWriter::create(path, kCacheFile));
  std::optional<std::int64_t> layer;
  for (const NamedMatrix& each : matrices) {
    if (layer != each.layer) OUTRIDER_RETURN_IF_ERROR(writer->begin_extent());
    layer = each.layer;
    writer->add(each.name, each.matrix);
  }
  return writer->finish(name, fingerprint, arithmetic);
}

}  // namespace outrider
