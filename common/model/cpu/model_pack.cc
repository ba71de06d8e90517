// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/model_pack.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <utility>

#include "common/base/mapped_file.h"
#include "common/model/cpu/pack/pack_checksum.h"
#include "common/model/format/architecture.h"

namespace outrider {
namespace {

std::vector<std::string> split_arithmetic(const std::string& text) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',' && words.size() < 3) {
      words.emplace_back();
      ++i;  // the space
    } else {
      words.back() += text[i];
    }
  }
  return words;
}

Result<DType> dtype_called(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(DType::kQ6_K); ++i) {
    if (to_string(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return data_loss("dtype " + printable(name) + " is unknown");
}

}  // namespace

bool is_layer_matrix(const TensorSpec& spec) {
  return !spec.name.ends_with(".bias") &&
         std::ranges::find(kLayerMatrices, spec.part) != std::end(kLayerMatrices);
}

bool ModelPack::is_pack(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, kPackMagic.size()> begin{};
  return file.read(begin.data(), begin.size()) &&
         std::string_view(begin.data(), begin.size()) == kPackMagic;
}

Result<ModelPack> ModelPack::open(const std::string& path, std::optional<Position> max_context) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::open(path));
  ModelPack pack;
  pack.path_ = path;
  pack.bytes_ = file->bytes();
  OUTRIDER_ASSIGN_OR_RETURN(pack.index_, parse_pack_index(pack.bytes_, path));
  const std::string& arithmetic = pack.index_.arithmetic;
  if (!arithmetic.ends_with(std::string("kernels ") + kKernelVersion)) {
    return failed_precondition(path + ": packed for \"" + printable(arithmetic) +
                               "\", but this program has kernels " + kKernelVersion +
                               ". Remedy: pack the model again (outrider-edge pack)");
  }
  OUTRIDER_RETURN_IF_ERROR(pack.check_files());
  const std::optional<std::string_view> config = pack.text(kPackConfigName);
  if (!config) return data_loss(path + ": holds no " + kPackConfigName + ": a cache, or damaged");
  ModelFiles files{.name = pack.index_.name,
                   .config = {},
                   .weights = Weights::from_views(nullptr, {}),
                   .fingerprint = pack.index_.fingerprint};
  OUTRIDER_ASSIGN_OR_RETURN(files.config, parse_config(*config, path + ": " + kPackConfigName));
  std::map<std::string, TensorView, std::less<>> tensors;
  OUTRIDER_RETURN_IF_ERROR(pack.read_tensors(tensors));
  files.weights = Weights::from_views(std::move(file), std::move(tensors));
  OUTRIDER_RETURN_IF_ERROR(limit_context(max_context, files.config));
  pack.files_ = std::make_shared<const ModelFiles>(std::move(files));
  OUTRIDER_RETURN_IF_ERROR(pack.find_layers());
  return pack;
}

bool ModelPack::holds_files(std::uint64_t extent) const {
  return std::ranges::find(index_.files, extent, &PackedFile::extent) != index_.files.end();
}

Status ModelPack::check_files() const {
  for (std::uint64_t i = 0; i < index_.extents.size(); ++i) {
    if (!holds_files(i)) continue;
    OUTRIDER_RETURN_IF_ERROR(check_extent(path_, index_.extents[static_cast<std::size_t>(i)],
                                          path_ + ", config, tokenizer and small tensors"));
  }
  return {};
}

Status ModelPack::check_tensors() const {
  for (std::uint64_t i = 0; i < index_.extents.size(); ++i) {
    const bool holds_tensors =
        std::ranges::find(index_.tensors, i, &PackTensor::extent) != index_.tensors.end();
    if (!holds_tensors || holds_files(i)) continue;
    OUTRIDER_RETURN_IF_ERROR(check_extent(path_, index_.extents[static_cast<std::size_t>(i)],
                                          path_ + ", the embedding"));
  }
  return {};
}

std::optional<std::string_view> ModelPack::text(std::string_view name) const {
  const auto found = std::ranges::find(index_.files, name, &PackedFile::name);
  if (found == index_.files.end()) return std::nullopt;
  const auto part = bytes_.subspan(static_cast<std::size_t>(found->offset),
                                   static_cast<std::size_t>(found->bytes));
  return std::string_view(reinterpret_cast<const char*>(part.data()), part.size());
}

// Sizes by their shapes, which the index alone does not tell.
Status ModelPack::read_tensors(std::map<std::string, TensorView, std::less<>>& tensors) const {
  for (const PackTensor& tensor : index_.tensors) {
    const std::string what = path_ + ": tensor " + printable(tensor.name) + ": ";
    const Result<DType> dtype = dtype_called(tensor.dtype);
    if (!dtype.ok()) return dtype.status().with_context(what);
    std::int64_t elements = 1;
    for (const std::int64_t size : tensor.shape) {
      if (size < 1 || size > (std::int64_t{1} << 40) / elements) {
        return data_loss(what + "a shape that overflows");
      }
      elements *= size;
    }
    const std::int64_t blocks = elements / block_elements(*dtype);
    if (tensor.shape.empty() || tensor.shape.back() % block_elements(*dtype) != 0 ||
        std::cmp_not_equal(tensor.bytes, blocks * block_bytes(*dtype))) {
      return data_loss(what + std::to_string(tensor.bytes) + " bytes do not fit its shape");
    }
    tensors[tensor.name] = {.dtype = *dtype,
                            .shape = tensor.shape,
                            .data = bytes_.data() + tensor.offset,
                            .num_bytes = static_cast<std::size_t>(tensor.bytes),
                            .interleaved = tensor.interleaved};
  }
  return {};
}

// Every tensor and matrix is there with its shape, and each layer lies in one extent.
Status ModelPack::find_layers() {
  extents_.assign(static_cast<std::size_t>(config().num_layers) + 1, index_.extents.size());
  for (const TensorSpec& spec : expected_tensors(config())) {
    if (is_layer_matrix(spec)) continue;
    const TensorView* tensor = files_->weights.find(spec.name);
    const bool may_lack = spec.part == ModelPart::kHead;
    if (tensor == nullptr ? may_lack : tensor->shape == spec.shape) continue;
    return data_loss(path_ + ": " + printable(spec.name) + " is missing or has another shape");
  }
  for (std::int32_t i = 0; i <= config().num_layers; ++i) {
    const bool is_head = i == config().num_layers;
    const std::vector<ModelPart> parts =
        is_head ? std::vector{output_part(config())}
                : std::vector(std::begin(kLayerMatrices), std::end(kLayerMatrices));
    std::uint64_t& extent = extents_[static_cast<std::size_t>(i)];
    for (const ModelPart part : parts) {
      OUTRIDER_RETURN_IF_ERROR(matrix(part, i).status());
      const std::uint64_t lies_in = find(weight_name(part, i))->extent;
      if (extent != index_.extents.size() && extent != lies_in) {
        return data_loss(path_ + ": layer " + std::to_string(i) + " lies in several extents");
      }
      extent = lies_in;
    }
  }
  return {};
}

const PackMatrix* ModelPack::find(std::string_view name) const {
  const auto found = std::ranges::find(index_.matrices, name, &PackMatrix::name);
  return found == index_.matrices.end() ? nullptr : &*found;
}

Result<WeightMatrix> ModelPack::matrix(ModelPart part, std::int32_t layer) const {
  const std::string name = weight_name(part, layer);
  const PackMatrix* found = find(name);
  const auto specs = expected_tensors(config());
  const auto spec = std::ranges::find(specs, name, &TensorSpec::name);
  if (found == nullptr || spec == specs.end() ||
      spec->shape != std::vector{found->outputs, found->inputs}) {
    return data_loss(path_ + ": matrix " + printable(name) + " is missing or has another shape");
  }
  WeightMatrix matrix = matrix_of(*found);
  matrix.data = bytes_.data() + found->offset;
  return matrix;
}

const PackExtent& ModelPack::layer_extent(std::int64_t layer) const {
  return index_.extents[static_cast<std::size_t>(extents_[static_cast<std::size_t>(layer)])];
}

Result<CpuWeights> ModelPack::weights() const {
  const std::vector<std::string> arithmetic = split_arithmetic(index_.arithmetic);
  if (arithmetic.size() != 3) return data_loss(path_ + ": arithmetic " + index_.arithmetic);
  CpuWeights weights;
  weights.files = files_;
  weights.embedding = files_->weights.at(weight_name(ModelPart::kEmbedding));
  weights.dtype = arithmetic[0];
  weights.arithmetic = arithmetic[1];
  OUTRIDER_RETURN_IF_ERROR(fill_layers(
      [this](ModelPart part, std::int32_t layer) { return matrix(part, layer); }, weights));
  weights.quantized = std::ranges::any_of(index_.matrices, [](const PackMatrix& matrix) {
    return matrix.type == static_cast<std::uint8_t>(WeightType::kQuantized);
  });
  return weights;
}

}  // namespace outrider
