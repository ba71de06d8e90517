// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/safetensors_writer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/json.h"
#include "common/engine/model/format/safetensors.h"

namespace outrider {
namespace {

// The header, padded with spaces to 8 bytes so that the data is aligned.
Result<std::string> header_text(std::span<const TensorHeader> headers, std::uint64_t& data_size) {
  Json json = {{"__metadata__", {{"format", "pt"}, {"made_by", "outrider"}}}};
  data_size = 0;
  for (const TensorHeader& header : headers) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::uint64_t size, tensor_bytes(header.dtype, header.shape));
    if (data_size % static_cast<std::uint64_t>(block_bytes(header.dtype)) != 0) {
      return invalid_argument("tensor " + header.name + ": 4-byte elements must come first");
    }
    if (json.contains(header.name)) {
      return invalid_argument("tensor " + header.name + " appears twice");
    }
    json[header.name] = {{"dtype", to_string(header.dtype)},
                         {"shape", header.shape},
                         {"data_offsets", {data_size, data_size + size}}};
    data_size += size;
  }
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

Result<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::create(
    const std::string& path, std::span<const TensorHeader> headers, const OutputKind& kind) {
  std::uint64_t data_size = 0;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, header_text(headers, data_size));
  OUTRIDER_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create(path, kind));
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter(path, std::move(output)));
  writer->bytes_left_ = data_size;
  std::array<std::byte, 8> length;
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(std::uint64_t{text.size()} >> (8 * i));
  }
  OUTRIDER_RETURN_IF_ERROR(writer->output_.write(length));
  OUTRIDER_RETURN_IF_ERROR(writer->output_.write(text));
  return writer;
}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > bytes_left_) {
    return invalid_argument(path_ + ": " + std::to_string(bytes.size()) + " bytes more, " +
                            std::to_string(bytes_left_) + " are left of the announced tensors");
  }
  OUTRIDER_RETURN_IF_ERROR(output_.write(bytes));
  bytes_left_ -= bytes.size();
  return {};
}

Status SafetensorsWriter::finish() {
  if (bytes_left_ > 0) {
    return failed_precondition(path_ + ": " + std::to_string(bytes_left_) +
                               " bytes of the announced tensors are missing");
  }
  return output_.commit();
}

Status write_safetensors(const std::string& path, std::vector<TensorBytes> tensors,
                         const OutputKind& kind) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorBytes& a, const TensorBytes& b) {
    return block_bytes(a.header.dtype) > block_bytes(b.header.dtype);
  });
  std::vector<TensorHeader> headers;
  for (const TensorBytes& tensor : tensors) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::uint64_t size,
                              tensor_bytes(tensor.header.dtype, tensor.header.shape));
    if (size != tensor.bytes.size()) {
      return invalid_argument(path + ": tensor " + tensor.header.name + " has " +
                              std::to_string(tensor.bytes.size()) + " bytes, its shape needs " +
                              std::to_string(size));
    }
    headers.push_back(tensor.header);
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                            SafetensorsWriter::create(path, headers, kind));
  for (const TensorBytes& tensor : tensors) {
    OUTRIDER_RETURN_IF_ERROR(writer->append(tensor.bytes));
  }
  return writer->finish();
}

}  // namespace outrider
