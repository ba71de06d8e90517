// SPDX-License-Identifier: Apache-2.0
#include "adapters/elastic/level_widths.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace outrider {
namespace {

std::size_t index(std::int64_t at) {
  return static_cast<std::size_t>(at);
}

// Weights of a layer's parts, in units of one column of the residual stream.
struct Sizes {
  explicit Sizes(const ModelConfig& config)
      : full(full_widths(config)),
        neuron(config.kinds.gated ? 3 : 2),
        group(2 * (group_columns(config) + config.head_dim)),
        cuts_groups(group_columns(config) % kElasticGroup == 0) {}

  std::int64_t layer() const { return full.neurons * neuron + full.kv_groups * group; }
  std::int64_t of(const LayerWidths& widths) const {
    return widths.neurons * neuron + widths.kv_groups * group;
  }

  LayerWidths full;
  std::int64_t neuron;
  std::int64_t group;
  bool cuts_groups;  // else a level has all groups
};

// The most whole groups of neurons that fit beside so many key/value groups, at least one.
std::int32_t neurons_beside(const Sizes& sizes, double budget, std::int32_t groups) {
  const double left = budget - static_cast<double>(groups * sizes.group);
  const double runs = std::floor(left / static_cast<double>(sizes.neuron * kElasticGroup));
  const auto most = static_cast<double>(sizes.full.neurons / kElasticGroup);
  return static_cast<std::int32_t>(std::clamp(runs, 1.0, most) * kElasticGroup);
}

// A layer of so many weights, within the layer of the level before.
LayerWidths even_layer(const Sizes& sizes, double budget, const LayerWidths& before) {
  const double share = budget / static_cast<double>(sizes.layer());
  const auto wanted = static_cast<std::int32_t>(std::lround(share * sizes.full.kv_groups));
  LayerWidths widths = before;
  if (sizes.cuts_groups) widths.kv_groups = std::clamp(wanted, 1, before.kv_groups);
  widths.neurons = std::min(before.neurons, neurons_beside(sizes, budget, widths.kv_groups));
  return widths;
}

LayerWidths feed_forward_first(const Sizes& sizes, double budget, const LayerWidths& before) {
  LayerWidths widths = before;
  const auto fits = [&] {
    return static_cast<double>(sizes.of({kElasticGroup, widths.kv_groups})) <= budget;
  };
  while (sizes.cuts_groups && widths.kv_groups > 1 && !fits()) --widths.kv_groups;
  widths.neurons = std::min(before.neurons, neurons_beside(sizes, budget, widths.kv_groups));
  return widths;
}

// What may go at once: 32 neurons or a group, with what it is worth per weight.
struct Piece {
  double worth;
  std::size_t layer;
  bool is_group;
};

std::vector<Piece> pieces_of(const WidthsInput& input, const Sizes& sizes) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < input.importance.size(); ++i) {
    if (std::ranges::find(input.anchors, static_cast<std::int32_t>(i)) != input.anchors.end()) {
      continue;
    }
    const LayerImportance& layer = input.importance[i];
    // The first of each kind stays.
    for (std::size_t n = index(kElasticGroup); n < layer.neurons.size(); n += kElasticGroup) {
      const auto begin = layer.neurons.begin() + static_cast<std::ptrdiff_t>(n);
      const double sum = std::accumulate(begin, begin + kElasticGroup, 0.0);
      pieces.push_back({sum / static_cast<double>(kElasticGroup * sizes.neuron), i, false});
    }
    for (std::size_t g = 1; sizes.cuts_groups && g < layer.kv_groups.size(); ++g) {
      pieces.push_back({layer.kv_groups[g] / static_cast<double>(sizes.group), i, true});
    }
  }
  std::ranges::stable_sort(pieces, {}, &Piece::worth);
  return pieces;
}

std::vector<std::vector<LayerWidths>> by_importance(const WidthsInput& input, const Sizes& sizes,
                                                    const std::vector<double>& budgets) {
  std::vector<LayerWidths> widths(input.importance.size(), sizes.full);
  std::vector<std::vector<LayerWidths>> levels;
  const std::vector<Piece> pieces = pieces_of(input, sizes);
  auto next = pieces.begin();
  auto weights = static_cast<double>(sizes.layer() * std::ssize(widths));
  for (const double budget : budgets) {
    for (; next != pieces.end() && weights > budget; ++next) {
      LayerWidths& layer = widths[next->layer];
      weights -= static_cast<double>(sizes.of(layer));
      (next->is_group ? layer.kv_groups : layer.neurons) -= next->is_group ? 1 : kElasticGroup;
      weights += static_cast<double>(sizes.of(layer));
    }
    levels.push_back(widths);
  }
  return levels;
}

std::vector<std::vector<LayerWidths>> whole_layers(const WidthsInput& input, const Sizes& sizes,
                                                   const std::vector<double>& shares) {
  const auto layers = std::ssize(input.layer_loss);
  std::vector<std::size_t> least(index(layers));
  std::iota(least.begin(), least.end(), std::size_t{0});
  std::ranges::stable_sort(least, {}, [&](std::size_t i) { return input.layer_loss[i]; });
  std::vector<std::vector<LayerWidths>> levels;
  for (const double share : shares) {
    const auto kept = std::max<std::int64_t>(1, std::lround(share * static_cast<double>(layers)));
    std::vector<LayerWidths> widths(index(layers), sizes.full);
    for (std::int64_t i = 0; i < layers - kept; ++i) widths[least[index(i)]] = {0, 0};
    levels.push_back(std::move(widths));
  }
  return levels;
}

std::vector<std::int32_t> falling(const std::vector<double>& importance, std::int64_t run) {
  std::vector<double> sums;
  for (std::size_t i = 0; i < importance.size(); i += index(run)) {
    const auto begin = importance.begin() + static_cast<std::ptrdiff_t>(i);
    sums.push_back(std::accumulate(begin, begin + run, 0.0));
  }
  std::vector<std::int32_t> runs(sums.size());
  std::iota(runs.begin(), runs.end(), 0);
  std::ranges::stable_sort(runs, std::ranges::greater(),
                           [&](std::int32_t i) { return sums[index(i)]; });
  std::vector<std::int32_t> order;
  for (const std::int32_t first : runs) {
    for (std::int64_t i = 0; i < run; ++i) {
      order.push_back(static_cast<std::int32_t>(first * run + i));
    }
  }
  return order;
}

}  // namespace

std::vector<LayerOrder> order_by_importance(const std::vector<LayerImportance>& importance,
                                            std::int64_t run) {
  std::vector<LayerOrder> order;
  for (const LayerImportance& layer : importance) {
    order.push_back({falling(layer.neurons, run), falling(layer.kv_groups, 1)});
  }
  return order;
}

std::vector<std::int32_t> choose_anchors(const std::vector<double>& layer_loss) {
  std::vector<std::int32_t> layers(layer_loss.size());
  std::iota(layers.begin(), layers.end(), 0);
  std::ranges::stable_sort(layers, std::ranges::greater(),
                           [&](std::int32_t i) { return layer_loss[index(i)]; });
  const auto count =
      std::max<std::int64_t>(1, std::lround(0.2 * static_cast<double>(layer_loss.size())));
  layers.resize(index(count));
  std::ranges::sort(layers);
  return layers;
}

std::vector<std::vector<LayerWidths>> share_out(const WidthsInput& input, Sharing sharing,
                                                const std::vector<double>& shares) {
  const Sizes sizes(input.config);
  if (sharing == Sharing::kWholeLayers) return whole_layers(input, sizes, shares);
  const auto layers = std::ssize(input.importance);
  const auto anchors = std::ssize(input.anchors);
  const auto layer_weights = static_cast<double>(sizes.layer());
  std::vector<double> budgets;
  for (const double share : shares) {
    budgets.push_back(share * static_cast<double>(layers) * layer_weights);
  }
  if (sharing == Sharing::kByImportance) return by_importance(input, sizes, budgets);
  std::vector<std::vector<LayerWidths>> levels;
  std::vector<LayerWidths> widths(index(layers), sizes.full);
  for (const double budget : budgets) {
    const double left = budget - static_cast<double>(anchors) * layer_weights;
    const double each = left / static_cast<double>(std::max<std::int64_t>(1, layers - anchors));
    for (std::int32_t i = 0; i < layers; ++i) {
      if (std::ranges::find(input.anchors, i) != input.anchors.end()) continue;
      LayerWidths& layer = widths[index(i)];
      if (each >= layer_weights) continue;
      layer = sharing == Sharing::kEven ? even_layer(sizes, each, layer)
                                        : feed_forward_first(sizes, each, layer);
    }
    levels.push_back(widths);
  }
  return levels;
}

}  // namespace outrider
