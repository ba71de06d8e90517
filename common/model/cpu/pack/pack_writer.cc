// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/pack/pack_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "common/base/errno_message.h"
#include "common/base/json_record.h"
#include "common/model/cpu/kernels/weight_memory.h"

namespace outrider {
namespace {

std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

PackWriter::PackWriter(std::string path, std::string partial, int descriptor)
    : path_(std::move(path)), partial_(std::move(partial)), descriptor_(descriptor) {}

Result<std::unique_ptr<PackWriter>> PackWriter::create(const std::string& path) {
  std::string partial = path + ".partial-XXXXXX";
  const int descriptor = ::mkostemp(partial.data(), O_CLOEXEC);
  if (descriptor < 0) return invalid_argument(partial + ": " + errno_message(errno));
  std::unique_ptr<PackWriter> writer(new PackWriter(path, partial, descriptor));
  OUTRIDER_RETURN_IF_ERROR(writer->write(std::vector<std::byte>(kPackPage)));  // the header's place
  return writer;
}

PackWriter::~PackWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(partial_.c_str());
}

Status PackWriter::begin_extent() {
  OUTRIDER_RETURN_IF_ERROR(end_extent());
  index_.extents.push_back({.offset = at_, .bytes = 0, .checksum = 0});
  return {};
}

Status PackWriter::add(const std::string& name, const WeightMatrix& matrix) {
  OUTRIDER_CHECK(!index_.extents.empty());
  extent_.resize((extent_.size() + kPackAlignment - 1) / kPackAlignment * kPackAlignment);
  PackMatrix described = describe_matrix(name, matrix);
  described.extent = index_.extents.size() - 1;
  described.offset = index_.extents.back().offset + extent_.size();
  index_.matrices.push_back(std::move(described));
  const std::span<const std::byte> bytes = memory_of(matrix);
  extent_.insert(extent_.end(), bytes.begin(), bytes.end());
  return {};
}

Status PackWriter::end_extent() {
  if (index_.extents.empty()) return {};
  PackExtent& extent = index_.extents.back();
  extent.bytes = extent_.size();
  extent.checksum = pack_checksum(extent_);
  OUTRIDER_RETURN_IF_ERROR(write(extent_));
  extent_.clear();
  return fill_up(kPackPage);
}

Status PackWriter::finish(const std::string& fingerprint, const std::string& arithmetic) {
  OUTRIDER_RETURN_IF_ERROR(end_extent());
  index_.fingerprint = fingerprint;
  index_.arithmetic = arithmetic;
  const std::string index = write_json(index_).dump();
  const std::string header = write_pack_header(at_, bytes_of_text(index));
  OUTRIDER_RETURN_IF_ERROR(write(bytes_of_text(index)));
  if (::lseek(descriptor_, 0, SEEK_SET) != 0) return failure(errno);
  OUTRIDER_RETURN_IF_ERROR(write(bytes_of_text(header)));
  if (::fsync(descriptor_) != 0) return failure(errno);
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) return failure(errno);
  ::close(std::exchange(descriptor_, -1));
  return {};
}

Status PackWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failure(errno);
    at_ += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status PackWriter::fill_up(std::uint64_t alignment) {
  return write(
      std::vector<std::byte>(static_cast<std::size_t>((alignment - at_ % alignment) % alignment)));
}

Status PackWriter::failure(int error) const {
  return resource_exhausted(path_ + ": cannot be written: " + errno_message(error));
}

}  // namespace outrider
