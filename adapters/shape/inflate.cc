// SPDX-License-Identifier: Apache-2.0
#include "adapters/shape/inflate.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "adapters/data/tokenizer_copy.h"
#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/format/model_writer.h"

namespace outrider {
namespace {

constexpr std::int32_t kColumnStep = 32;       // int8 weights are grouped by 32 columns
constexpr std::int32_t kMaxFfnPerHidden = 32;  // beyond it, layers are added
constexpr std::uint64_t kSeed = 1;             // of the weights that have no effect

// The source of a tensor of the larger model.
class GrownSource final {
 public:
  GrownSource(const ModelFiles& small) : small_(small) {}  // NOLINT(google-explicit-constructor)

  void operator()(const TensorSpec& spec, std::int64_t begin, std::span<float> out) const {
    const TensorView* original = small_.weights.find(spec.name);
    if (original == nullptr) {
      fill_added_layer(spec, begin, out);
    } else if (spec.part == ModelPart::kDown) {
      widen_columns(*original, spec.shape[1], begin, out);
    } else {
      append_rows(*original, spec, begin, out);
    }
  }

 private:
  static void fill_added_layer(const TensorSpec& spec, std::int64_t begin, std::span<float> out) {
    const bool output = spec.part == ModelPart::kAttentionOutput || spec.part == ModelPart::kDown;
    if (output) {
      std::fill(out.begin(), out.end(), 0.0f);
    } else {
      random_tensor(kSeed, spec, begin, out);
    }
  }

  // Rows keep their elements and are padded with zeros.
  static void widen_columns(const TensorView& original, std::int64_t columns, std::int64_t begin,
                            std::span<float> out) {
    const std::int64_t kept = original.shape[1];
    std::fill(out.begin(), out.end(), 0.0f);
    const auto end = begin + static_cast<std::int64_t>(out.size());
    for (std::int64_t row = begin / columns; row * columns < end; ++row) {
      const std::int64_t from = std::max(begin, row * columns);
      const std::int64_t to = std::min(end, row * columns + kept);
      if (from >= to) continue;
      widen(
          original, row * kept + (from - row * columns),
          out.subspan(static_cast<std::size_t>(from - begin), static_cast<std::size_t>(to - from)));
    }
  }

  static void append_rows(const TensorView& original, const TensorSpec& spec, std::int64_t begin,
                          std::span<float> out) {
    const std::int64_t old = std::clamp<std::int64_t>(original.num_elements() - begin, 0,
                                                      static_cast<std::int64_t>(out.size()));
    const auto split = static_cast<std::size_t>(old);
    if (split > 0) widen(original, begin, out.first(split));
    if (split < out.size()) random_tensor(kSeed, spec, begin + old, out.subspan(split));
  }

  const ModelFiles& small_;
};

TensorSource with_progress(TensorSource source, const ModelConfig& config,
                           const WriteProgress& progress) {
  return [source = std::move(source), total = num_parameters(config), &progress,
          done = std::int64_t{0}](const TensorSpec& spec, std::int64_t begin,
                                  std::span<float> out) mutable {
    source(spec, begin, out);
    progress(done += static_cast<std::int64_t>(out.size()), total);
  };
}

void set_layers(ModelConfig& config, std::int32_t layers) {
  const Position window = config.windows.empty() ? 0 : config.windows.back();
  config.num_layers = layers;
  config.windows.resize(static_cast<std::size_t>(layers), window);
}

}  // namespace

Result<ModelConfig> inflated_shape(const ModelConfig& config, std::int64_t num_elements) {
  if (num_elements < num_parameters(config)) {
    return invalid_argument("--to-bytes: the model is already larger. Remedy: a larger --to-bytes");
  }
  ModelConfig grown = config;
  const std::int64_t per_column =
      std::int64_t{3} * config.hidden_size * config.num_layers * kColumnStep;
  const std::int64_t steps = (num_elements - num_parameters(config) + per_column - 1) / per_column;
  const std::int64_t room =
      std::max(0, config.hidden_size * kMaxFfnPerHidden - config.intermediate_size) / kColumnStep;
  grown.intermediate_size += static_cast<std::int32_t>(std::min(steps, room)) * kColumnStep;
  ModelConfig deeper = grown;
  set_layers(deeper, grown.num_layers + 1);
  const std::int64_t per_layer = num_parameters(deeper) - num_parameters(grown);
  const std::int64_t missing = std::max<std::int64_t>(0, num_elements - num_parameters(grown));
  const std::int64_t layers = grown.num_layers + (missing + per_layer - 1) / per_layer;
  if (layers > kMaxLayers) {
    return invalid_argument("--to-bytes needs " + std::to_string(layers) + " layers, more than " +
                            std::to_string(kMaxLayers) + ". Remedy: a smaller --to-bytes");
  }
  set_layers(grown, static_cast<std::int32_t>(layers));
  return grown;
}

Status inflate(const std::string& model, std::int64_t num_bytes, const std::string& out,
               const WriteProgress& progress) {
  std::error_code error;
  if (std::filesystem::equivalent(model, out, error)) {
    return invalid_argument("--out " + out + " is the model itself. Remedy: another directory");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(model, {}));
  OUTRIDER_RETURN_IF_ERROR(check_llama_blocks(files->config, "inflating"));
  if (files->config.o_bias || files->config.mlp_bias) {
    return unimplemented(model +
                         ": biases on output or feed-forward projections; added layers "
                         "would not be without effect");
  }
  const DType stored = files->weights.at(weight_name(ModelPart::kEmbedding)).dtype;
  const DType dtype = block_elements(stored) == 1 ? stored : DType::kBF16;
  const std::int64_t size = block_bytes(dtype);
  OUTRIDER_ASSIGN_OR_RETURN(const ModelConfig grown,
                            inflated_shape(files->config, (num_bytes + size - 1) / size));
  OUTRIDER_RETURN_IF_ERROR(
      write_model(out, grown, dtype, with_progress(GrownSource(*files), grown, progress)));
  return copy_tokenizer(model, out);
}

Status init_model(const InitOptions& options, const std::string& out,
                  const WriteProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(ModelConfig config, known_shape(options.like));
  if (options.layers < 0 || options.layers > kMaxLayers) {
    return invalid_argument("--layers " + std::to_string(options.layers) +
                            " is out of range. Remedy: 1 to " + std::to_string(kMaxLayers));
  }
  if (options.layers > 0) set_layers(config, options.layers);
  return write_model(out, config, options.dtype,
                     with_progress(random_source(options.seed), config, progress));
}

}  // namespace outrider
