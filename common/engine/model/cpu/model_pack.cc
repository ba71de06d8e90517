// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/model_pack.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "common/base/sha256.h"
#include "common/engine/model/cpu/pack/pack_checksum.h"

namespace outrider {
namespace {

constexpr std::size_t kMaxName = 255;  // the name of a folder or file
// The valid pairs of dtype and arithmetic (CpuWeights).
constexpr std::pair<std::string_view, std::string_view> kArithmetics[] = {
    {"f32", "exact"}, {"bf16", "exact"},  {"bf16", "bf16"},  {"int8", "int8"},
    {"int4", "int4"}, {"int8", "blocks"}, {"int4", "blocks"}};

Status damaged(const std::string& text) {
  return data_loss(text + ". Remedy: pack the model again (outrider-edge pack)");
}

// "int8, blocks, kernels 4"
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

bool is_layer_matrix(const TensorSpec& spec) {
  return is_in_layer(spec.part) && spec.shape.size() == 2;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName && std::ranges::none_of(name, [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
}

std::optional<DType> dtype_called(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (to_string(dtype) == name && !needs_scales(dtype)) return dtype;
  }
  return std::nullopt;
}

std::string shown(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < std::min<std::size_t>(shape.size(), 4); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + (shape.size() > 4 ? ", ..]" : "]");
}

// Bytes of a tensor of that dtype; nothing if it is not whole blocks. The config bounds the shape.
std::optional<std::uint64_t> bytes_of(DType dtype, std::span<const std::int64_t> shape) {
  if (shape.back() % block_elements(dtype) != 0) return std::nullopt;
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  return static_cast<std::uint64_t>(elements / block_elements(dtype) * block_bytes(dtype));
}

// The type of the matrices' numbers.
std::string_view dtype_of(const PackIndex& index, std::string_view unquantized) {
  bool quantized = false;
  for (const PackMatrix& matrix : index.matrices) {
    if (matrix.bits == 4) return "int4";
    quantized |= matrix.type == static_cast<std::uint8_t>(WeightType::kQuantized);
  }
  return quantized ? "int8" : unquantized;
}

}  // namespace

PackTensors pack_tensors(const ModelConfig& config, bool with_head) {
  PackTensors tensors;
  for (TensorSpec& spec : expected_tensors(config)) {
    if (is_layer_matrix(spec) || (spec.part == ModelPart::kHead && !with_head)) continue;
    const bool large = spec.shape.size() == 2;  // and outside of the layers
    (large ? tensors.large : tensors.small).push_back(std::move(spec));
  }
  return tensors;
}

bool ModelPack::is_pack(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // opening a FIFO would block
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
  Result<PackIndex> index = parse_pack_index(pack.bytes_, path);
  if (!index.ok()) return damaged(index.status().message());
  pack.index_ = *std::move(index);
  pack.arithmetic_ = split_arithmetic(pack.index_.arithmetic);
  if (pack.arithmetic_.back() != std::string("kernels ") + kKernelVersion) {
    return failed_precondition(path + ": packed for " + printable(pack.index_.arithmetic) +
                               ", but this program has kernels " + kKernelVersion +
                               ". Remedy: pack the model again (outrider-edge pack)");
  }
  OUTRIDER_RETURN_IF_ERROR(pack.check_texts());
  OUTRIDER_RETURN_IF_ERROR(pack.check_arithmetic());
  ModelFiles files{.name = pack.index_.name,
                   .config = {},
                   .weights = Weights::from_views(nullptr, {}),
                   .fingerprint = pack.index_.fingerprint};
  Result<ModelConfig> config =
      parse_config(*pack.text(kPackConfigName), path + ": " + kPackConfigName);
  if (!config.ok()) return damaged(config.status().message());
  files.config = *std::move(config);
  OUTRIDER_RETURN_IF_ERROR(pack.read_elastic(files.config));
  files.elastic = pack.elastic_;
  OUTRIDER_RETURN_IF_ERROR(pack.check_matrices(files.config));
  std::map<std::string, TensorView, std::less<>> tensors;
  OUTRIDER_RETURN_IF_ERROR(pack.read_tensors(files.config, tensors));
  files.weights = Weights::from_views(std::move(file), std::move(tensors));
  OUTRIDER_RETURN_IF_ERROR(limit_context(max_context, files.config));
  pack.files_ = std::make_shared<const ModelFiles>(std::move(files));
  return pack;
}

// Each layer and the output matrix have an extent; two follow, for texts with small tensors and for
// large tensors.
const PackExtent& ModelPack::extent_from_end(std::size_t number) const {
  return index_.extents.at(index_.extents.size() - number);
}

Status ModelPack::check_texts() const {
  if (!text(kPackConfigName) || index_.extents.size() < 3) {
    return damaged(path_ + ": holds no " + kPackConfigName + ": it is a cache, or damaged");
  }
  for (const PackedFile& file : index_.files) {
    if (file.extent + 2 == index_.extents.size()) continue;
    return damaged(path_ + ": files: " + printable(file.name) + " lies in extent " +
                   std::to_string(file.extent) + ", must lie in " +
                   std::to_string(index_.extents.size() - 2));
  }
  return check_extent(path_, extent_from_end(2), path_ + ", config, tokenizer and small tensors");
}

Status ModelPack::check_arithmetic() const {
  if (!is_name(index_.name)) {
    return damaged(path_ + ": name is " + printable(index_.name) + ", must be 1 to " +
                   std::to_string(kMaxName) + " bytes without control characters");
  }
  if (!is_sha256_hex(index_.fingerprint)) {
    return damaged(path_ + ": fingerprint is " + printable(index_.fingerprint) +
                   ", must be 64 hex digits");
  }
  const bool known = arithmetic_.size() == 3 &&
                     std::ranges::find(kArithmetics, std::pair<std::string_view, std::string_view>(
                                                         arithmetic_[0], arithmetic_[1])) !=
                         std::end(kArithmetics);
  const std::string_view unquantized = arithmetic_[0] == "f32" ? "f32" : "bf16";
  if (known && arithmetic_[0] == dtype_of(index_, unquantized)) return {};
  return damaged(path_ + ": arithmetic is " + printable(index_.arithmetic) +
                 ", which is unknown or does not fit matrices of " +
                 std::string(dtype_of(index_, "f32 or bf16")));
}

// Where the parts of its levels must lie follows from the table.
Status ModelPack::read_elastic(const ModelConfig& config) {
  const std::optional<std::string_view> text = this->text(kElasticFile);
  if (!text) return {};
  Result<ElasticTable> table =
      parse_elastic_table(*text, config, index_.fingerprint, path_ + ": " + kElasticFile);
  if (!table.ok()) return damaged(table.status().message());
  elastic_ = std::make_shared<const ElasticTable>(*std::move(table));
  std::set<std::string_view> with_units;
  for (const PackMatrix& matrix : index_.matrices) {
    if (matrix.scales != static_cast<std::uint8_t>(ScaleType::kMultiples)) continue;
    with_units.insert(std::string_view(matrix.name).substr(0, matrix.name.find('@')));
  }
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    std::vector<bool> has_units;
    for (const LayerMatrix& which : layer_matrices(config)) {
      has_units.push_back(with_units.contains(weight_name(which.part, layer)));
    }
    parts_.push_back(level_parts(*elastic_, config, layer, has_units));
  }
  return {};
}

Status ModelPack::check_matrix(const PackMatrix& matrix, const std::string& name,
                               std::size_t extent, const std::vector<std::int64_t>& shape) const {
  const std::string what = path_ + ": matrix " + printable(matrix.name);
  if (matrix.name != name) return damaged(what + " is in the place of " + name);
  if (matrix.extent != extent) {
    return damaged(what + ": extent is " + std::to_string(matrix.extent) + ", must be " +
                   std::to_string(extent));
  }
  const std::vector<std::int64_t> found{matrix.outputs, matrix.inputs};
  if (found == shape) return {};
  return damaged(what + ": outputs and inputs are " + shown(found) + ", must be " + shown(shape));
}

Status ModelPack::check_matrix_count(std::size_t wanted, std::int32_t layers) const {
  if (index_.matrices.size() == wanted) return {};
  return damaged(path_ + ": matrices are " + std::to_string(index_.matrices.size()) + ", must be " +
                 std::to_string(wanted) + " for " + std::to_string(layers) + " layers");
}

// The parts of each layer level by level, those of one matrix in one format.
Status ModelPack::check_level_parts(const ModelConfig& config) const {
  std::size_t count = 1;  // the output matrix
  for (const auto& parts : parts_) count += parts.size();
  OUTRIDER_RETURN_IF_ERROR(check_matrix_count(count, config.num_layers));
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const TensorSpec& spec : expected_tensors(config)) shapes[spec.name] = spec.shape;
  const std::vector<LayerMatrix> matrices = layer_matrices(config);
  auto matrix = index_.matrices.begin();
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    std::vector<const PackMatrix*> first(matrices.size());
    for (const LevelPart& part : parts_[static_cast<std::size_t>(layer)]) {
      const std::string name = weight_name(matrices[part.matrix].part, layer);
      std::vector<std::int64_t> shape = shapes.at(name);
      shape[is_cut_in_columns(matrices[part.matrix].part) ? 1 : 0] = part.end - part.begin;
      OUTRIDER_RETURN_IF_ERROR(check_matrix(
          *matrix, name + "@" + elastic_->levels[part.level].name,
          extent_number(config, layer) + extent_of_level(*elastic_, part.level), shape));
      if (first[part.matrix] == nullptr) first[part.matrix] = &*matrix;
      const WeightMatrix one = matrix_of(*first[part.matrix]), other = matrix_of(*matrix++);
      if (one.type == other.type && one.format == other.format) continue;
      return damaged(path_ + ": matrix " + printable(name) + ": its levels have several formats");
    }
  }
  return {};
}

// The matrices must be those of the config's layers in a pass's order, each layer's and each
// expert's in its own extent; the output matrix comes last.
Status ModelPack::check_matrices(const ModelConfig& config) const {
  const auto layers = static_cast<std::size_t>(config.num_layers);
  const std::size_t extents = extent_number(config, config.num_layers) + 3;
  if (index_.extents.size() != extents) {
    return damaged(path_ + ": extents are " + std::to_string(index_.extents.size()) + ", must be " +
                   std::to_string(extents) + " for " + std::to_string(layers) + " layers");
  }
  if (elastic_ != nullptr) {
    OUTRIDER_RETURN_IF_ERROR(check_level_parts(config));
  } else {
    OUTRIDER_RETURN_IF_ERROR(
        check_matrix_count(layers * layer_matrices(config).size() + 1, config.num_layers));
    auto matrix = index_.matrices.begin();
    for (const TensorSpec& spec : expected_tensors(config)) {
      if (!is_layer_matrix(spec)) continue;
      const std::size_t expert = is_of_expert(spec.part) ? 1 + spec.expert : 0;
      OUTRIDER_RETURN_IF_ERROR(check_matrix(
          *matrix++, spec.name, extent_number(config, spec.layer) + expert, spec.shape));
    }
  }
  return check_matrix(index_.matrices.back(), weight_name(output_part(config)),
                      extent_number(config, config.num_layers),
                      {config.head_size(), config.hidden_size});
}

// The tensors must be the config's, small ones first, in a pass's order.
Status ModelPack::read_tensors(const ModelConfig& config,
                               std::map<std::string, TensorView, std::less<>>& tensors) const {
  const bool with_head = std::ranges::any_of(index_.tensors, [](const PackTensor& tensor) {
    return tensor.name == weight_name(ModelPart::kHead);
  });
  auto [specs, large] = pack_tensors(config, with_head);
  const std::size_t small = specs.size();
  std::ranges::move(large, std::back_inserter(specs));
  if (index_.tensors.size() != specs.size()) {
    return damaged(path_ + ": tensors are " + std::to_string(index_.tensors.size()) + ", must be " +
                   std::to_string(specs.size()) + " by " + kPackConfigName);
  }
  const ModelFamily& family = family_of(config);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const TensorSpec& spec = specs[i];
    const PackTensor& tensor = index_.tensors[i];
    const std::string what = path_ + ": tensor " + printable(tensor.name);
    const auto wrong = [&what](const char* field, const std::string& value,
                               const std::string& expected) {
      return damaged(what + ": " + field + " is " + value + ", must be " + expected);
    };
    if (tensor.name != spec.name) return damaged(what + " is in the place of " + spec.name);
    const std::size_t extent = index_.extents.size() - (i < small ? 2 : 1);
    if (tensor.extent != extent) {
      return wrong("extent", std::to_string(tensor.extent), std::to_string(extent));
    }
    if (tensor.shape != spec.shape) return wrong("shape", shown(tensor.shape), shown(spec.shape));
    const std::optional<DType> dtype = dtype_called(tensor.dtype);
    if (!dtype) return wrong("dtype", printable(tensor.dtype), "F32, F16, BF16 or a type of GGUF");
    const std::optional<std::uint64_t> bytes = bytes_of(*dtype, spec.shape);
    if (!bytes) return wrong("dtype", tensor.dtype, "one whose blocks fill " + shown(spec.shape));
    if (tensor.bytes != *bytes) {
      return wrong("bytes", std::to_string(tensor.bytes), std::to_string(*bytes));
    }
    const std::int64_t interleaved = spec.rotated && family.gguf_interleaves ? config.head_dim : 0;
    if (tensor.interleaved != 0 && tensor.interleaved != interleaved) {
      return wrong("interleaved", std::to_string(tensor.interleaved),
                   interleaved == 0 ? "0" : "0 or " + std::to_string(interleaved));
    }
    tensors[tensor.name] = {.dtype = *dtype,
                            .shape = tensor.shape,
                            .data = bytes_.data() + tensor.offset,
                            .num_bytes = static_cast<std::size_t>(tensor.bytes),
                            .interleaved = tensor.interleaved};
  }
  return {};
}

Status ModelPack::check_tensors() const {
  return check_extent(path_, extent_from_end(1), path_ + ", the embedding");
}

std::optional<std::string_view> ModelPack::text(std::string_view name) const {
  const auto found = std::ranges::find(index_.files, name, &PackedFile::name);
  if (found == index_.files.end()) return std::nullopt;
  const auto part = bytes_.subspan(static_cast<std::size_t>(found->offset),
                                   static_cast<std::size_t>(found->bytes));
  return std::string_view(reinterpret_cast<const char*>(part.data()), part.size());
}

std::vector<std::string> ModelPack::text_names() const {
  std::vector<std::string> names;
  for (const PackedFile& file : index_.files) names.push_back(file.name);
  return names;
}

// A layer's matrices in the order of layer_matrices(); next: the first of their parts.
std::vector<LinearWeights> ModelPack::matrices_by_level(
    std::size_t layer, std::vector<PackMatrix>::const_iterator& next) const {
  const std::vector<LayerMatrix> matrices = layer_matrices(config());
  std::vector<LinearWeights> all(matrices.size());
  for (const LevelPart& part : parts_[layer]) {
    WeightMatrix piece = matrix_of(*next);
    piece.data = bytes_.data() + next->offset;
    ++next;
    LinearWeights& weights = all[part.matrix];
    weights.parts.push_back(piece);
    const bool columns = is_cut_in_columns(matrices[part.matrix].part);
    if (columns) piece.inputs = part.end;
    if (!columns) piece.outputs = part.end;
    weights.matrix = piece;
  }
  for (LinearWeights& weights : all) {
    if (weights.parts.size() == 1) weights.parts.clear();
    if (!weights.parts.empty()) weights.matrix.data = nullptr;
  }
  return all;
}

Result<CpuWeights> ModelPack::weights() const {
  CpuWeights weights;
  weights.files = files_;
  weights.embedding = files_->weights.at(weight_name(ModelPart::kEmbedding));
  weights.dtype = arithmetic_[0];
  weights.arithmetic = arithmetic_[1];
  if (elastic_ != nullptr) weights.order = order_id(*elastic_);
  auto next = index_.matrices.begin();  // check_matrices() and fill_layers() use the same order
  std::vector<std::vector<LinearWeights>> by_level;
  for (std::size_t i = 0; i < parts_.size(); ++i) by_level.push_back(matrices_by_level(i, next));
  std::size_t taken = 0;  // of the layer's
  const auto matrix = [&](const LayerMatrix& /*which*/,
                          std::int32_t layer) -> Result<WeightMatrix> {
    const auto index = static_cast<std::size_t>(layer);
    if (index < by_level.size()) return by_level[index][taken++].matrix;
    WeightMatrix found = matrix_of(*next);
    found.data = bytes_.data() + next->offset;
    ++next;
    return found;
  };
  const auto layer_done = [&](std::int32_t layer) -> Status {
    const auto index = static_cast<std::size_t>(layer);
    taken = 0;
    if (index >= by_level.size()) return {};
    auto parts = by_level[index].begin();
    visit_matrices(weights.layers[index],
                   [&parts](LinearWeights& each) { each.parts = std::move((parts++)->parts); });
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(fill_layers(matrix, weights, layer_done));
  weights.quantized = arithmetic_[0].starts_with("int");
  return weights;
}

}  // namespace outrider
