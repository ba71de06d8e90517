// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/model_pack_writer.h"

#include <span>
#include <vector>

#include "common/engine/model/cpu/level_parts.h"
#include "common/engine/model/cpu/model_pack.h"
#include "common/engine/model/format/architecture.h"

namespace outrider {
namespace {

// "bf16, kernels 2": the dtype comes before the comma.
std::string arithmetic_of(const CpuWeights& weights) {
  return weights.dtype + ", " + weights.arithmetic + ", kernels " + kKernelVersion;
}

// An expert's matrices begin an extent of their own.
Status add_matrices(PackWriter& writer, const ModelConfig& config, const CpuLayer& layer,
                    std::int32_t index) {
  const std::vector<LayerMatrix> matrices = layer_matrices(config);
  auto next = matrices.begin();
  std::int32_t expert = -1;  // whose extent was begun last
  Status status;
  visit_matrices(layer, [&](const LinearWeights& weights) {
    const bool begins = is_of_expert(next->part) && next->expert != expert;
    if (begins && status.ok()) status = writer.begin_extent();
    if (begins) expert = next->expert;
    writer.add(weight_name(next->part, index, next->expert), weights.matrix);
    ++next;
  });
  return status;
}

// Level by level, each an extent of its own.
Status add_levels(PackWriter& writer, const ModelFiles& files, const CpuLayer& layer,
                  std::int32_t index) {
  const ElasticTable& table = *files.elastic;
  const std::vector<LayerMatrix> matrices = layer_matrices(files.config);
  std::vector<const WeightMatrix*> whole;
  std::vector<bool> has_units;
  visit_matrices(layer, [&](const LinearWeights& weights) {
    whole.push_back(&weights.matrix);
    has_units.push_back(weights.matrix.format.scales == ScaleType::kMultiples);
  });
  const std::vector<LevelPart> parts = level_parts(table, files.config, index, has_units);
  auto next = parts.begin();
  std::vector<std::byte> columns;
  for (std::size_t level = table.levels.size(); level-- > 0;) {
    OUTRIDER_RETURN_IF_ERROR(writer.begin_extent());
    for (; next != parts.end() && next->level == level; ++next) {
      const ModelPart part = matrices[next->matrix].part;
      const WeightMatrix& matrix = *whole[next->matrix];
      writer.add(weight_name(part, index) + "@" + table.levels[level].name,
                 is_cut_in_columns(part) ? cut_columns(matrix, next->begin, next->end, columns)
                                         : cut_rows(matrix, next->begin, next->end));
    }
  }
  return {};
}

// A tensor whose values are not the stored ones is written as f32.
void add_tensors(PackWriter& writer, const Weights& weights, std::span<const TensorSpec> specs) {
  for (const TensorSpec& spec : specs) {
    const TensorView& tensor = weights.at(spec.name);
    const bool as_stored = tensor.added == 0.0f && tensor.transposed == 0 &&
                           tensor.quantized == nullptr && tensor.row_order == nullptr;
    const std::vector<float> values = as_stored ? std::vector<float>() : widened(tensor);
    const auto bytes =
        as_stored ? std::span(tensor.data, tensor.num_bytes) : std::as_bytes(std::span(values));
    writer.add_tensor({.name = spec.name,
                       .dtype = std::string(to_string(as_stored ? tensor.dtype : DType::kF32)),
                       .shape = tensor.shape,
                       .interleaved = tensor.interleaved},
                      bytes);
  }
}

}  // namespace

Result<ModelPackWriter> ModelPackWriter::create(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<PackWriter> writer,
                            PackWriter::create(path, kPackFile));
  return ModelPackWriter(std::move(writer));
}

Status ModelPackWriter::add_layer(const CpuWeights& weights, std::int32_t layer) {
  const ModelConfig& config = weights.files->config;
  const bool is_layer = layer < config.num_layers;
  const auto index = static_cast<std::size_t>(layer);
  if (is_layer && weights.files->elastic != nullptr) {
    return add_levels(*writer_, *weights.files, weights.layers[index], layer);
  }
  OUTRIDER_RETURN_IF_ERROR(writer_->begin_extent());
  if (is_layer) return add_matrices(*writer_, config, weights.layers[index], layer);
  writer_->add(weight_name(output_part(config)), weights.head.matrix);
  return {};
}

Status ModelPackWriter::finish(const CpuWeights& weights, const PackContents& contents) {
  OUTRIDER_RETURN_IF_ERROR(writer_->begin_extent());
  writer_->add_file(kPackConfigName, config_to_json(weights.files->config, "float32").dump());
  if (const auto& table = weights.files->elastic) {
    writer_->add_file(kElasticFile, elastic_table_text(*table));
  }
  for (const PackText& text : contents.texts) writer_->add_file(text.name, text.content);
  const PackTensors tensors = pack_tensors(weights.files->config, contents.for_exits);
  add_tensors(*writer_, weights.files->weights, tensors.small);
  OUTRIDER_RETURN_IF_ERROR(writer_->begin_extent());
  add_tensors(*writer_, weights.files->weights, tensors.large);
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

}  // namespace outrider
