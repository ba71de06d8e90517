// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/stored_tensors.h"

#include <algorithm>
#include <map>

namespace outrider {
namespace {

const StoredRule* find_rule(const ModelFamily& family, ModelPart part) {
  for (const StoredRule& rule : family.stored) {
    if (std::ranges::find(rule.parts, part) != rule.parts.end()) return &rule;
  }
  return nullptr;
}

// The name in the file, and in `stacked` whether the tensor holds all experts.
std::string stored_name(const ModelFamily& family, const TensorSpec& spec, bool in_gguf,
                        bool& stacked) {
  const StoredRule* rule = find_rule(family, spec.part);
  std::string name = rule == nullptr ? stored_stem(spec.part, in_gguf)
                     : in_gguf       ? rule->gguf_name
                                     : rule->name;
  const std::size_t star = name.find('*');
  stacked = is_of_expert(spec.part) && star == std::string::npos;
  if (star != std::string::npos) name.replace(star, 1, std::to_string(spec.expert));
  const std::string number = std::to_string(spec.layer) + ".";
  if (in_gguf) {
    if (is_in_layer(spec.part)) name = "blk." + number + name;
  } else {
    if (is_in_layer(spec.part)) name = family.layers + number + name;
    if (spec.part != ModelPart::kHead) name = family.body + name;
  }
  return name + (spec.is_bias ? ".bias" : ".weight");
}

std::vector<std::int64_t> stored_shape(const StoredTensor& stored, bool stacked) {
  std::vector<std::int64_t> shape = stored.parts.front().shape;
  if (stacked) {
    shape.insert(shape.begin(), static_cast<std::int64_t>(stored.parts.size()));
    return shape;
  }
  shape[0] = 0;
  for (const TensorSpec& part : stored.parts) shape[0] += part.shape[0];
  if (stored.transposed) std::swap(shape[0], shape[1]);
  return shape;
}

bool is_norm(ModelPart part) {
  return part == ModelPart::kAttentionNorm || part == ModelPart::kQueryNorm ||
         part == ModelPart::kKeyNorm || part == ModelPart::kAttentionOutputNorm ||
         part == ModelPart::kMlpNorm || part == ModelPart::kMlpOutputNorm ||
         part == ModelPart::kFinalNorm;
}

std::int64_t elements_of(const TensorSpec& spec) {
  std::int64_t product = 1;
  for (const std::int64_t size : spec.shape) product *= size;
  return product;
}

}  // namespace

std::vector<StoredTensor> stored_tensors(const ModelConfig& config, FileKind kind) {
  const ModelFamily& family = family_of(config);
  const bool in_gguf = kind == FileKind::kGguf;
  std::vector<StoredTensor> tensors;
  std::vector<bool> stacks;
  std::map<std::string, std::size_t, std::less<>> places;
  for (TensorSpec& spec : expected_tensors(config)) {
    bool stacked = false;
    std::string name = stored_name(family, spec, in_gguf, stacked);
    const auto [place, is_new] = places.emplace(name, tensors.size());
    if (is_new) {
      const StoredRule* rule = find_rule(family, spec.part);
      StoredTensor& stored = tensors.emplace_back();
      stored.name = std::move(name);
      stored.transposed = !in_gguf && rule != nullptr && rule->transposed && !spec.is_bias;
      if (!in_gguf && is_norm(spec.part) && !spec.is_bias) stored.added = family.norm_offset;
      if (in_gguf && spec.rotated && family.gguf_interleaves) stored.interleaved = config.head_dim;
      stacks.push_back(stacked);
    }
    tensors[place->second].parts.push_back(std::move(spec));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].shape = stored_shape(tensors[i], stacks[i]);
  }
  return tensors;
}

std::vector<std::pair<std::string, TensorView>> split(const StoredTensor& stored,
                                                      const TensorView& tensor) {
  std::vector<std::pair<std::string, TensorView>> views;
  std::int64_t first = 0;  // element of the file's tensor
  for (const TensorSpec& part : stored.parts) {
    const auto bytes = [&](std::int64_t elements) {
      return elements / block_elements(tensor.dtype) * block_bytes(tensor.dtype);
    };
    views.emplace_back(part.name,
                       TensorView{.dtype = tensor.dtype,
                                  .shape = part.shape,
                                  .data = tensor.data + bytes(first),
                                  .num_bytes = static_cast<std::size_t>(bytes(elements_of(part))),
                                  .interleaved = stored.interleaved,
                                  .transposed = stored.transposed ? stored.shape[1] : 0,
                                  .added = stored.added});
    first += stored.transposed ? part.shape[0] : elements_of(part);
  }
  return views;
}

}  // namespace outrider
