// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/safetensors.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "common/base/json.h"
#include "common/engine/model/format/safetensors_header.h"

namespace outrider {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 62;

// For the types of safetensors files: none has blocks.
std::uint64_t element_bytes(DType dtype) {
  OUTRIDER_CHECK(block_elements(dtype) == 1);
  return static_cast<std::uint64_t>(block_bytes(dtype));
}

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  return value;
}

// Files that users download by accident instead of weights.
std::string known_impostor(std::string_view start) {
  if (start.starts_with("version https://git-lfs.github.com/spec/")) {
    return "a Git LFS pointer, not the weights; run: git lfs pull";
  }
  for (const std::string_view mark : {"<!DOCTYPE", "<!doctype", "<html", "<HTML", "<?xml"}) {
    if (start.starts_with(mark)) return "a web page, not weights; the download failed";
  }
  if (start.starts_with("PK\x03\x04") || start.starts_with("\x80\x02")) {
    return "a PyTorch pickle, which may run code and is not read; convert it to safetensors";
  }
  if (start.starts_with("GGUF")) return "a GGUF file under another name; rename it to NAME.gguf";
  return "";
}

Status check_entry(const SafetensorsEntry& entry, std::uint64_t data_begin,
                   const std::string& what) {
  const std::string tensor = what + ": tensor " + printable(entry.name);
  const Result<std::uint64_t> size = tensor_bytes(entry.dtype, entry.shape);
  if (!size.ok()) return size.status().with_context(tensor);
  if (entry.end - entry.begin != *size) {
    return data_loss(tensor + ": data_offsets span " + std::to_string(entry.end - entry.begin) +
                     " bytes, shape and dtype need " + std::to_string(*size));
  }
  if ((data_begin + entry.begin) % element_bytes(entry.dtype) != 0) {
    return data_loss(tensor + ": misaligned; write the file again with safetensors 0.3 or later");
  }
  return {};
}

// Sorts by place and checks that the tensors tile [0, data_size) exactly.
Status check_tiling(std::vector<SafetensorsEntry>& entries, std::uint64_t data_size,
                    const std::string& what) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != end) {
      return data_loss(what + ": tensor " + printable(entry.name) + " begins at byte " +
                       std::to_string(entry.begin) + " of the data, " +
                       (entry.begin < end ? "inside the one before it" : "after a gap") +
                       "; expected " + std::to_string(end));
    }
    end = entry.end;
  }
  if (end < data_size) {
    return data_loss(what + ": " + std::to_string(data_size - end) +
                     " bytes after the last tensor belong to no tensor");
  }
  return {};
}

Status check_length(std::uint64_t header_size, std::uint64_t file_size, const std::string& what) {
  if (header_size > kMaxSafetensorsHeader) {
    return data_loss(what + ": header of " + std::to_string(header_size) + " bytes, at most " +
                     std::to_string(kMaxSafetensorsHeader) +
                     " are read; is it a safetensors file?");
  }
  if (header_size > file_size - kLengthBytes) {
    return data_loss(what + ": header of " + std::to_string(header_size) + " bytes in a file of " +
                     std::to_string(file_size) + ": cut short, download it again");
  }
  return {};
}

bool is_plain_name(std::string_view name) {
  constexpr std::size_t kLongest = 255;
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  };
  return name.size() <= kLongest && name.ends_with(".safetensors") && !name.starts_with('.') &&
         std::all_of(name.begin(), name.end(), allowed);
}

Status no_plain_name(const std::string& what, const std::string& tensor, const Json& file) {
  const std::string shown = file.is_string() ? printable(file.get<std::string>()) : "no string";
  return data_loss(what + ": tensor " + printable(tensor) + " is in file " + shown +
                   "; must be a plain name such as model-00001-of-00002.safetensors");
}

}  // namespace

Result<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape) {
  std::uint64_t bytes = element_bytes(dtype);
  for (const std::int64_t size : shape) {
    if (size < 0) return data_loss("negative dimension " + std::to_string(size));
    if (size > 0 && bytes > kMaxTensorBytes / static_cast<std::uint64_t>(size)) {
      return data_loss("the product of its shape overflows");
    }
    bytes *= static_cast<std::uint64_t>(size);
  }
  return bytes;
}

Result<std::vector<SafetensorsEntry>> parse_safetensors(std::span<const std::byte> file,
                                                        const std::string& what) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (const std::string impostor = known_impostor(text.substr(0, 64)); !impostor.empty()) {
    return data_loss(what + ": " + impostor);
  }
  if (file.size() < kLengthBytes) {
    return data_loss(what + ": " + std::to_string(file.size()) +
                     " bytes are too few for a safetensors file");
  }
  const std::uint64_t header_size = little_endian(file);
  OUTRIDER_RETURN_IF_ERROR(check_length(header_size, file.size(), what));
  const std::uint64_t data_begin = kLengthBytes + header_size;
  const std::uint64_t data_size = file.size() - data_begin;
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<SafetensorsEntry> entries,
                            parse_safetensors_header(text.substr(kLengthBytes, header_size), what));
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin > entry.end || entry.end > data_size) {
      return data_loss(what + ": tensor " + printable(entry.name) + ": data_offsets [" +
                       std::to_string(entry.begin) + ", " + std::to_string(entry.end) +
                       "] do not lie in the file's " + std::to_string(data_size) +
                       " bytes of data: cut short or damaged, download it again");
    }
    OUTRIDER_RETURN_IF_ERROR(check_entry(entry, data_begin, what));
  }
  OUTRIDER_RETURN_IF_ERROR(check_tiling(entries, data_size, what));
  for (SafetensorsEntry& entry : entries) {
    entry.begin += data_begin;
    entry.end += data_begin;
  }
  return entries;
}

Result<std::map<std::string, std::string>> parse_weight_index(std::string_view text,
                                                              const std::string& what) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, what));
  const auto found = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_object() || found->empty()) {
    return data_loss(what + ": no object weight_map from tensors to files");
  }
  if (found->size() > kMaxSafetensorsTensors) {
    return data_loss(what + ": weight_map names " + std::to_string(found->size()) +
                     " tensors, at most " + std::to_string(kMaxSafetensorsTensors));
  }
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : found->items()) {
    if (!file.is_string() || !is_plain_name(file.get_ref<const std::string&>())) {
      return no_plain_name(what, tensor, file);
    }
    files.emplace(tensor, file.get<std::string>());
  }
  return files;
}

}  // namespace outrider
