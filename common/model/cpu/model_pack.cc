// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/model_pack.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <utility>

#include "common/base/mapped_file.h"
#include "common/model/cpu/kernels/weight_memory.h"
#include "common/model/format/architecture.h"

namespace outrider {
namespace {

constexpr const char* kConfigName = "config.json";

bool is_layer_matrix(ModelPart part) {
  return std::ranges::find(kLayerMatrices, part) != std::end(kLayerMatrices);
}

// "bf16, kernels 2": the dtype stands before the comma.
std::string arithmetic_of(const CpuWeights& weights) {
  return weights.dtype + ", " + weights.arithmetic + ", kernels " + kKernelVersion;
}

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

void add_matrices(PackWriter& writer, const CpuLayer& layer, std::int32_t index) {
  const LinearWeights* matrices[] = {&layer.q,    &layer.k,  &layer.v,   &layer.o,
                                     &layer.gate, &layer.up, &layer.down};
  for (std::size_t i = 0; i < std::size(matrices); ++i) {
    writer.add(weight_name(kLayerMatrices[i], index), matrices[i]->matrix);
  }
}

// What is no matrix of a layer, and no output matrix of its own unless exits read it.
void add_tensors(PackWriter& writer, const ModelFiles& files, bool for_exits) {
  for (const TensorSpec& spec : expected_tensors(files.config)) {
    const bool is_bias = spec.name.ends_with(".bias");
    if (!is_bias && is_layer_matrix(spec.part)) continue;
    if (spec.part == ModelPart::kHead && !for_exits) continue;
    const TensorView& tensor = files.weights.at(spec.name);
    writer.add_tensor({.name = spec.name,
                       .dtype = std::string(to_string(tensor.dtype)),
                       .shape = tensor.shape,
                       .interleaved = tensor.interleaved},
                      {tensor.data, tensor.num_bytes});
  }
}

}  // namespace

Result<ModelPackWriter> ModelPackWriter::create(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<PackWriter> writer, PackWriter::create(path));
  return ModelPackWriter(std::move(writer));
}

Status ModelPackWriter::add_layer(const CpuWeights& weights, std::int32_t layer) {
  OUTRIDER_RETURN_IF_ERROR(writer_->begin_extent());
  const ModelConfig& config = weights.files->config;
  if (layer < config.num_layers) {
    add_matrices(*writer_, weights.layers[static_cast<std::size_t>(layer)], layer);
  } else {
    writer_->add(weight_name(output_part(config)), weights.head.matrix);
  }
  return {};
}

Status ModelPackWriter::finish(const CpuWeights& weights, const PackContents& contents) {
  OUTRIDER_RETURN_IF_ERROR(writer_->begin_extent());
  writer_->add_file(kConfigName, config_to_json(weights.files->config, "float32").dump());
  for (const PackText& text : contents.texts) writer_->add_file(text.name, text.content);
  add_tensors(*writer_, *weights.files, contents.for_exits);
  return writer_->finish(weights.files->name, weights.files->fingerprint, arithmetic_of(weights));
}

Status write_model_pack(const std::string& path, const CpuWeights& weights,
                        const PackContents& contents) {
  OUTRIDER_ASSIGN_OR_RETURN(ModelPackWriter writer, ModelPackWriter::create(path));
  for (std::int32_t layer = 0; layer <= weights.files->config.num_layers; ++layer) {
    OUTRIDER_RETURN_IF_ERROR(writer.add_layer(weights, layer));
  }
  return writer.finish(weights, contents);
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
  const std::optional<std::string_view> config = pack.text(kConfigName);
  if (!config) return data_loss(path + ": holds no " + kConfigName + ": a cache, or damaged");
  ModelFiles files{.name = pack.index_.name,
                   .config = {},
                   .weights = Weights::from_views(nullptr, {}),
                   .fingerprint = pack.index_.fingerprint};
  OUTRIDER_ASSIGN_OR_RETURN(files.config, parse_config(*config, path + ": " + kConfigName));
  std::map<std::string, TensorView, std::less<>> tensors;
  OUTRIDER_RETURN_IF_ERROR(pack.read_tensors(tensors));
  files.weights = Weights::from_views(std::move(file), std::move(tensors));
  OUTRIDER_RETURN_IF_ERROR(limit_context(max_context, files.config));
  pack.files_ = std::make_shared<const ModelFiles>(std::move(files));
  OUTRIDER_RETURN_IF_ERROR(pack.find_layers());
  return pack;
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
    const bool is_bias = spec.name.ends_with(".bias");
    if (!is_bias && is_layer_matrix(spec.part)) continue;
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
