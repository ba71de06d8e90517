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

double weights_of(const Sizes& sizes, const std::vector<LayerWidths>& widths) {
  double weights = 0;
  for (const LayerWidths& layer : widths) weights += static_cast<double>(sizes.of(layer));
  return weights;
}

bool is_anchor(const WidthsInput& input, std::size_t layer) {
  return std::ranges::binary_search(input.anchors, static_cast<std::int32_t>(layer));
}

// The most whole groups of neurons that fit beside so many key/value groups, at least one.
std::int32_t neurons_beside(const Sizes& sizes, double budget, std::int32_t groups) {
  const double left = budget - static_cast<double>(groups * sizes.group);
  const double runs = std::floor(left / static_cast<double>(sizes.neuron * kElasticGroup));
  const std::int64_t most = sizes.full.neurons / kElasticGroup;
  return static_cast<std::int32_t>(std::clamp(runs, 1.0, static_cast<double>(most)) *
                                   kElasticGroup);
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

using NarrowLayer = LayerWidths (*)(const Sizes&, double budget, const LayerWidths& before);

// Layers of at most the same weights: as many as fit, found by bisection, as some have less.
void alike(const WidthsInput& input, const Sizes& sizes, double budget, NarrowLayer narrow_layer,
           std::vector<LayerWidths>& widths) {
  const std::vector<LayerWidths> before = widths;
  const auto fit = [&](double each) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const bool stays = is_anchor(input, i) || before[i] == LayerWidths{0, 0} ||
                         each >= static_cast<double>(sizes.of(before[i]));
      widths[i] = stays ? before[i] : narrow_layer(sizes, each, before[i]);
    }
    return weights_of(sizes, widths) <= budget;
  };
  double fits = 0, most = static_cast<double>(sizes.layer());
  if (fit(most)) return;
  while (most - fits > 1) (fit((fits + most) / 2) ? fits : most) = (fits + most) / 2;
  fit(fits);
}

// The smallest part that is removed at once, 32 neurons or a group, with its worth per weight.
struct Piece {
  double worth;
  std::size_t layer;
  bool is_group;
};

// The pieces that are left in the level before.
std::vector<Piece> pieces_of(const WidthsInput& input, const Sizes& sizes,
                             const std::vector<LayerWidths>& widths) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < input.importance.size(); ++i) {
    if (is_anchor(input, i)) continue;
    const LayerImportance& layer = input.importance[i];
    // The first of each kind stays.
    for (std::int32_t n = kElasticGroup; n < widths[i].neurons; n += kElasticGroup) {
      const auto begin = layer.neurons.begin() + n;
      const double sum = std::accumulate(begin, begin + kElasticGroup, 0.0);
      pieces.push_back({sum / static_cast<double>(kElasticGroup * sizes.neuron), i, false});
    }
    for (std::int32_t g = 1; sizes.cuts_groups && g < widths[i].kv_groups; ++g) {
      pieces.push_back({layer.kv_groups[index(g)] / static_cast<double>(sizes.group), i, true});
    }
  }
  std::ranges::stable_sort(pieces, {}, &Piece::worth);
  return pieces;
}

void by_importance(const WidthsInput& input, const Sizes& sizes, double budget,
                   std::vector<LayerWidths>& widths) {
  double weights = weights_of(sizes, widths);
  for (const Piece& piece : pieces_of(input, sizes, widths)) {
    if (weights <= budget) return;
    LayerWidths& layer = widths[piece.layer];
    weights -= static_cast<double>(sizes.of(layer));
    (piece.is_group ? layer.kv_groups : layer.neurons) -= piece.is_group ? 1 : kElasticGroup;
    weights += static_cast<double>(sizes.of(layer));
  }
}

void whole_layers(const WidthsInput& input, const Sizes& sizes, double budget,
                  std::vector<LayerWidths>& widths) {
  double excess = weights_of(sizes, widths) - budget;
  std::vector<std::size_t> least(widths.size());
  std::iota(least.begin(), least.end(), std::size_t{0});
  std::ranges::stable_sort(least, {}, [&](std::size_t i) { return input.layer_loss[i]; });
  for (const std::size_t i : least) {
    if (excess <= 0) return;
    if (is_anchor(input, i)) continue;
    const auto weights = static_cast<double>(sizes.of(widths[i]));
    const bool goes = excess >= weights;
    widths[i] = goes ? LayerWidths{0, 0} : even_layer(sizes, weights - excess, widths[i]);
    excess -= weights - static_cast<double>(sizes.of(widths[i]));
  }
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

std::vector<LayerWidths> narrow(const WidthsInput& input, Sharing sharing, double share,
                                std::vector<LayerWidths> widths) {
  const Sizes sizes(input.config);
  const double budget =
      share * static_cast<double>(widths.size()) * static_cast<double>(sizes.layer());
  switch (sharing) {
    case Sharing::kWholeLayers:
      whole_layers(input, sizes, budget, widths);
      break;
    case Sharing::kByImportance:
      by_importance(input, sizes, budget, widths);
      break;
    case Sharing::kEven:
      alike(input, sizes, budget, even_layer, widths);
      break;
    case Sharing::kFeedForwardFirst:
      alike(input, sizes, budget, feed_forward_first, widths);
      break;
  }
  return widths;
}

}  // namespace outrider
