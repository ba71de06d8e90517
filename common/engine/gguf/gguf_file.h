// A GGUF model on disk, mapped and not copied: one file, or its parts NAME-00001-of-0000N.gguf.
//
//   auto gguf = GgufFile::open("SmolLM2.gguf");
//   auto layers = gguf->metadata().integer("llama.block_count");
//
// Ownership: metadata and tensors are views into the mapping and valid during the life of the
// GgufFile, also when it is moved. Thread rule: immutable; read from any thread. Errors: kNotFound,
// kInvalidArgument or kDataLoss naming the file; those of parse_gguf().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/mapped_file.h"
#include "common/base/status.h"
#include "common/engine/gguf/gguf_header.h"

namespace outrider {

class GgufFile final {
 public:
  // The path of one part opens all parts. They must be in the same folder, agree in the keys that
  // several of them have, and hold together the number of tensors that the first part states.
  static Result<GgufFile> open(const std::string& path);

  // The keys of the first part and the tensors of all.
  const GgufHeader& header() const { return header_; }
  const GgufMetadata& metadata() const { return header_.metadata; }
  const std::vector<GgufTensor>& tensors() const { return header_.tensors; }

  // The part that an address of a tensor's data lies in.
  const MappedFile* part_with(const std::byte* address) const;

  // kDataLoss if a file's size has changed since it was opened.
  Status check_unchanged() const;

  // Forgets the pages of every part (mapped_file.h).
  void forget_pages() const;

 private:
  GgufFile() : header_{GgufMetadata(""), {}} {}
  Status add_part(const std::string& path, std::size_t number, std::size_t count);

  GgufHeader header_;
  std::vector<std::unique_ptr<MappedFile>> files_;
};

}  // namespace outrider
