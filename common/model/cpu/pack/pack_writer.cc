// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/pack/pack_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "common/base/json_record.h"
#include "common/base/posix.h"
#include "common/model/cpu/kernels/weight_memory.h"
#include "common/model/cpu/pack/pack_checksum.h"

namespace outrider {
namespace {

std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Syncs the folder, which holds the file's name. Some file systems cannot sync folders (EINVAL),
// and a folder may be writable but not readable.
Status sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  const UniqueFd descriptor(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.valid() || ::fsync(descriptor.get()) == 0 || errno == EINVAL) return {};
  return resource_exhausted(path + ": its name cannot be written: " + errno_message(errno));
}

}  // namespace

PackWriter::PackWriter(std::string path, std::string partial, UniqueFd descriptor)
    : path_(std::move(path)), partial_(std::move(partial)), file_(std::move(descriptor), path_) {}

Result<std::unique_ptr<PackWriter>> PackWriter::create(const std::string& path) {
  if (std::error_code error; std::filesystem::is_directory(path, error)) {
    return invalid_argument(path + ": is a folder. Remedy: name a file in it");
  }
  std::string partial = path + ".partial-XXXXXX";
  UniqueFd descriptor(::mkostemp(partial.data(), O_CLOEXEC));
  if (!descriptor.valid()) {
    const int why = errno;
    return invalid_argument(path + ": cannot be written: " + errno_message(why));
  }
  std::unique_ptr<PackWriter> writer(new PackWriter(path, partial, std::move(descriptor)));
  // Room for the header.
  OUTRIDER_RETURN_IF_ERROR(writer->file_.write(std::vector<std::byte>(kPackPage)));
  return writer;
}

PackWriter::~PackWriter() {
  if (!complete_) ::unlink(partial_.c_str());
}

Status PackWriter::begin_extent() {
  OUTRIDER_RETURN_IF_ERROR(end_extent());
  index_.extents.push_back({.offset = file_.size(), .bytes = 0, .checksum = 0});
  return {};
}

void PackWriter::add(const std::string& name, const WeightMatrix& matrix) {
  PackMatrix described = describe_matrix(name, matrix);
  described.offset = place(memory_of(matrix));
  described.extent = index_.extents.size() - 1;
  index_.matrices.push_back(std::move(described));
}

void PackWriter::add_tensor(PackTensor tensor, std::span<const std::byte> bytes) {
  tensor.offset = place(bytes);
  tensor.bytes = bytes.size();
  tensor.extent = index_.extents.size() - 1;
  index_.tensors.push_back(std::move(tensor));
}

void PackWriter::add_file(const std::string& name, std::string_view content) {
  const std::uint64_t offset = place(bytes_of_text(content));
  index_.files.push_back({.name = name,
                          .extent = index_.extents.size() - 1,
                          .offset = offset,
                          .bytes = content.size()});
}

// Adds bytes to the current extent; returns their offset in the file.
std::uint64_t PackWriter::place(std::span<const std::byte> bytes) {
  OUTRIDER_CHECK(!index_.extents.empty());
  extent_.resize((extent_.size() + kPackAlignment - 1) / kPackAlignment * kPackAlignment);
  const std::uint64_t offset = index_.extents.back().offset + extent_.size();
  extent_.insert(extent_.end(), bytes.begin(), bytes.end());
  return offset;
}

Status PackWriter::end_extent() {
  if (index_.extents.empty()) return {};
  PackExtent& extent = index_.extents.back();
  extent.bytes = extent_.size();
  extent.checksum = pack_checksum(extent_);
  extent_.resize((extent_.size() + kPackPage - 1) / kPackPage * kPackPage);
  const Status written = file_.write(extent_);
  extent_.clear();
  return written;
}

Status PackWriter::finish(const std::string& name, const std::string& fingerprint,
                          const std::string& arithmetic) {
  OUTRIDER_RETURN_IF_ERROR(end_extent());
  index_.name = name;
  index_.fingerprint = fingerprint;
  index_.arithmetic = arithmetic;
  const std::string index = write_json(index_).dump();
  const std::string header = write_pack_header(file_.size(), bytes_of_text(index));
  OUTRIDER_RETURN_IF_ERROR(file_.write(bytes_of_text(index)));
  OUTRIDER_RETURN_IF_ERROR(file_.finish(bytes_of_text(header)));
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) {
    return resource_exhausted(path_ + ": cannot be written: " + errno_message(errno));
  }
  complete_ = true;
  return sync_folder_of(path_);
}

}  // namespace outrider
