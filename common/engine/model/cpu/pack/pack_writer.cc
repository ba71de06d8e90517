// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/pack/pack_writer.h"

#include <utility>

#include "common/base/json_record.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/cpu/pack/pack_checksum.h"

namespace outrider {
namespace {

std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Result<std::unique_ptr<PackWriter>> PackWriter::create(const std::string& path,
                                                       const OutputKind& kind) {
  OUTRIDER_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create(path, kind));
  std::unique_ptr<PackWriter> writer(new PackWriter(path, std::move(output)));
  // Room for the header.
  OUTRIDER_RETURN_IF_ERROR(writer->file_.write(std::vector<std::byte>(kPackPage)));
  return writer;
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
  return output_.commit();
}

}  // namespace outrider
