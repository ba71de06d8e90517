// SPDX-License-Identifier: Apache-2.0
#include "common/engine/gguf/gguf_file.h"

#include <set>
#include <string_view>
#include <utility>

#include "common/engine/gguf/find_gguf.h"

namespace outrider {
namespace {

constexpr std::string_view kPartKey = "split.no";
constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kTensorsKey = "split.tensors.count";

// GGUF files may hold other things than a model: general.type says which; older adapters have a key
// of their own.
Status check_is_model(const GgufMetadata& metadata) {
  const Result<std::string_view> said = metadata.text("general.type");
  std::string type = said.ok() ? std::string(*said) : "model";
  if (metadata.has("adapter.type")) type = "adapter";
  if (type == "model") return {};
  std::string what = "a file of type " + printable(type) + " (general.type)";
  if (type == "adapter") what = "a LoRA adapter";
  if (type == "imatrix") what = "an importance matrix, from which a model is quantised";
  if (type == "mmproj") what = "the image part of a model (mmproj)";
  return invalid_argument(metadata.what() + ": is " + what +
                          ", not a model. Remedy: name the GGUF file of the model's weights" +
                          (type == "adapter" ? ", with the adapter merged in" : ""));
}

// The part's own keys must agree with its name; a whole file has one part.
Status check_part(const GgufMetadata& metadata, std::size_t number, std::size_t count) {
  std::int64_t said_count = 1;
  std::int64_t said_number = 0;
  if (count > 1 || metadata.has(kCountKey)) {
    OUTRIDER_ASSIGN_OR_RETURN(said_count, metadata.integer(kCountKey));
    OUTRIDER_ASSIGN_OR_RETURN(said_number, metadata.integer(kPartKey));
  }
  if (std::cmp_equal(said_count, count) && std::cmp_equal(said_number, number)) return {};
  return data_loss(metadata.what() + ": says that it is part " + std::to_string(said_number) +
                   " (from 0) of " + std::to_string(said_count) + ", but its name says part " +
                   std::to_string(number) + " of " + std::to_string(count) +
                   "; the parts of a model end in -00001-of-0000N.gguf");
}

Status check_same_model(const GgufMetadata& first, const GgufMetadata& part) {
  for (const auto& [key, value] : part.values()) {
    const auto found = first.values().find(key);
    if (key == kPartKey || found == first.values().end()) continue;
    if (found->second.bytes != value.bytes) {
      return data_loss(part.what() + ": " + printable(key) + " differs from that of " +
                       first.what() + "; a part of another model?");
    }
  }
  return {};
}

}  // namespace

Status GgufFile::add_part(const std::string& path, std::size_t number, std::size_t count) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::open(path));
  OUTRIDER_ASSIGN_OR_RETURN(GgufHeader part, parse_gguf(file->bytes(), path));
  files_.push_back(std::move(file));
  OUTRIDER_RETURN_IF_ERROR(check_part(part.metadata, number, count));
  if (number == 0) {
    header_ = std::move(part);
    return check_is_model(header_.metadata);
  }
  OUTRIDER_RETURN_IF_ERROR(check_same_model(header_.metadata, part.metadata));
  for (GgufTensor& tensor : part.tensors) header_.tensors.push_back(std::move(tensor));
  return {};
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  GgufFile gguf;
  const std::vector<std::string> parts = gguf_parts(path);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(gguf.add_part(parts[i], i, parts.size()));
  }
  if (parts.size() == 1) return gguf;
  OUTRIDER_ASSIGN_OR_RETURN(const std::int64_t tensors, gguf.metadata().integer(kTensorsKey));
  if (std::cmp_not_equal(tensors, gguf.tensors().size())) {
    return data_loss(parts[0] + ": " + std::string(kTensorsKey) + " is " + std::to_string(tensors) +
                     ", but its parts hold " + std::to_string(gguf.tensors().size()) + " tensors");
  }
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : gguf.tensors()) {
    if (!names.insert(tensor.name).second) {
      return data_loss(parts[0] + ": tensor " + printable(tensor.name) + " is in two parts");
    }
  }
  return gguf;
}

void GgufFile::forget_pages() const {
  for (const auto& file : files_) outrider::forget_pages(file->bytes());
}

const MappedFile* GgufFile::part_with(const std::byte* address) const {
  return file_with(files_, address);
}

Status GgufFile::check_unchanged() const {
  for (const auto& file : files_) OUTRIDER_RETURN_IF_ERROR(file->check_unchanged());
  return {};
}

}  // namespace outrider
