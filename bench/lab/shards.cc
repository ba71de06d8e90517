// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/shards.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>

#include "common/engine/model/format/model_files.h"
#include "common/engine/model/format/model_writer.h"
#include "common/engine/model/format/tensor_view.h"

namespace outrider {
namespace {

constexpr std::size_t kGroup = 64;

}  // namespace

std::vector<int> plan_shards(std::span<const double> importance, double mean_bits) {
  std::vector<std::size_t> order(importance.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t layer) { return importance[layer]; });
  std::vector<int> bits(importance.size(), kShardBits[0]);
  double room = (mean_bits - kShardBits[0]) * static_cast<double>(bits.size());
  for (std::size_t step = 1; step < std::size(kShardBits); ++step) {
    for (const std::size_t layer : order) {
      const double more = kShardBits[step] - bits[layer];
      if (more > room) return bits;
      bits[layer] = kShardBits[step];
      room -= more;
    }
  }
  return bits;
}

void round_to_bits(std::span<float> values, int bits) {
  const auto steps = static_cast<float>((1 << (bits - 1)) - 1);  // on each side of 0
  while (!values.empty()) {
    const std::span<float> group = values.first(std::min(kGroup, values.size()));
    values = values.subspan(group.size());
    float most = 0;
    for (const float value : group) most = std::max(most, std::abs(value));
    if (most == 0) continue;
    for (float& value : group) value = std::round(value / most * steps) * most / steps;
  }
}

Status write_shards(const std::string& model, std::span<const int> bits, const std::string& out) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(model, {}));
  if (static_cast<std::size_t>(files->config.num_layers) != bits.size()) {
    return invalid_argument(model + " has " + std::to_string(files->config.num_layers) +
                            " layers, and shards are planned for " + std::to_string(bits.size()));
  }
  // Groups begin anew with each part of a tensor that is asked for.
  return write_model(out, files->config, DType::kF32,
                     [&](const TensorSpec& spec, std::int64_t begin, std::span<float> values) {
                       widen(files->weights.at(spec.name), begin, values);
                       const bool in_shard = is_in_layer(spec.part) && spec.shape.size() > 1;
                       const int kept = in_shard ? bits[static_cast<std::size_t>(spec.layer)] : 0;
                       if (kept > 0) round_to_bits(values, kept);
                     });
}

}  // namespace outrider
