// The file format of prepared weights: matrices in the kernels' layout, ready to be mapped.
//
//   page 0       header: magic, version, where the index is, its checksum, the file's size
//   extents      one for each layer, followed by one for each of its experts, and one for the
//                output matrix, each at the next multiple of 4 KiB with its matrices at the next
//                multiples of 64 bytes: read in one piece
//                In a pack two more follow for everything outside layers: small files and
//                tensors, and large tensors as stored
//   index        JSON: the model, extents with checksums, matrices, tensors, files
//
// A cache of converted weights (weight_cache.h) holds the converted matrices, a pack (model_pack.h)
// everything that a model needs.
//
// A file has one byte order (little-endian, as all CPUs with kernels), one source and one
// arithmetic. Its version is that of the layout of its matrices (quant_format.h): files of another
// version, or of another kernel version, are refused.
//
// Thread rule: values, pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/cpu/kernels/kernels.h"

namespace outrider {

inline constexpr std::string_view kPackMagic = "OUTRPACK";
inline constexpr std::uint64_t kPackPage = 4096;
inline constexpr std::uint64_t kPackAlignment = 64;  // of each matrix

// Offsets are in bytes from the file's begin.
struct PackExtent {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("offset", self.offset);
    field("bytes", self.bytes);
    field("checksum", self.checksum);
  }
};

struct PackMatrix {
  std::string name;  // of the tensor
  std::uint64_t extent = 0;
  std::uint64_t offset = 0;
  std::uint8_t type = 0;  // a WeightType, or 4: kQuantized with a table
  std::uint8_t bits = 8;  // this and the next three: QuantFormat
  std::uint8_t scale_group = 32;
  std::uint8_t scales = 0;  // a ScaleType
  bool has_minimum = false;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("name", self.name);
    field("extent", self.extent);
    field("offset", self.offset);
    field("type", self.type);
    field("bits", self.bits);
    field("scale_group", self.scale_group);
    field("scales", self.scales);
    field("has_minimum", self.has_minimum);
    field("outputs", self.outputs);
    field("inputs", self.inputs);
  }
};

// A tensor as its source stored it.
struct PackTensor {
  std::string name;
  std::string dtype;  // "BF16", "Q8_0"
  std::vector<std::int64_t> shape;
  std::int64_t interleaved = 0;  // as in TensorView
  std::uint64_t extent = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("name", self.name);
    field("dtype", self.dtype);
    field("shape", self.shape);
    field("interleaved", self.interleaved);
    field("extent", self.extent);
    field("offset", self.offset);
    field("bytes", self.bytes);
  }
};

// A small file, such as config.json.
struct PackedFile {
  std::string name;
  std::uint64_t extent = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("name", self.name);
    field("extent", self.extent);
    field("offset", self.offset);
    field("bytes", self.bytes);
  }
};

struct PackIndex {
  std::string name;         // of the model
  std::string fingerprint;  // of the source (ModelInfo::fingerprint)
  std::string arithmetic;   // the arithmetic that the matrices are for
  std::vector<PackExtent> extents;
  std::vector<PackMatrix> matrices;
  std::vector<PackTensor> tensors;
  std::vector<PackedFile> files;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("name", self.name);
    field("fingerprint", self.fingerprint);
    field("arithmetic", self.arithmetic);
    field("extents", self.extents);
    field("matrices", self.matrices);
    field("tensors", self.tensors);
    field("files", self.files);
  }
};

PackMatrix describe_matrix(const std::string& name, const WeightMatrix& matrix);
// Without its data.
WeightMatrix matrix_of(const PackMatrix& matrix);

// The header's page, for a file that ends with this index, which parse_pack_index() has checked.
std::string write_pack_header(std::uint64_t index_offset, std::span<const std::byte> index);

// Header and index of a file. Extents, matrices, tensors and files must be laid out as
// pack_writer.h does: one after the other, each once, within their extent and the file, so that
// checksums cover everything that is read. Not checked: the checksums of extents, the dtypes and
// shapes of tensors, and whether the model is complete (model_pack.h). `what` names the file in
// errors. DATA_LOSS naming field and value for a file that is damaged, cut short or of another
// version.
Result<PackIndex> parse_pack_index(std::span<const std::byte> file, const std::string& what);

}  // namespace outrider
