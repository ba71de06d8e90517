// How many units each layer of a level keeps: ways to share out a level's weights among the layers,
// all nested and in whole groups of 32 (elastic_table.h).
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/base/enum_names.h"
#include "common/engine/model/format/elastic_table.h"

namespace outrider {

// The change of the loss when a unit is removed, in the first order: |gradient of a gate before its
// output| (ElastiLM, equation 2).
struct LayerImportance {
  std::vector<double> neurons;
  std::vector<double> kv_groups;
};

enum class Sharing : std::uint8_t {
  kEven,              // each layer keeps the same share of its neurons and of its groups
  kFeedForwardFirst,  // neurons go before groups
  kByImportance,      // what matters least per weight goes first, in whatever layer
  kWholeLayers,       // whole layers go, the least important first, the last one in part
};

template <>
inline constexpr auto enum_names<Sharing> =
    std::to_array<EnumName<Sharing>>({{Sharing::kEven, "even"},
                                      {Sharing::kFeedForwardFirst, "feed-forward-first"},
                                      {Sharing::kByImportance, "by-importance"},
                                      {Sharing::kWholeLayers, "whole-layers"}});

// The order of the most important units first. run: units that stay together, 32 or 1 (neurons).
std::vector<LayerOrder> order_by_importance(const std::vector<LayerImportance>& importance,
                                            std::int64_t run);

struct WidthsInput {
  const ModelConfig& config;
  std::vector<LayerImportance> importance;  // [layers], each in the table's order
  std::vector<double> layer_loss;           // [layers]: by how much the loss rises without it
  std::vector<std::int32_t> anchors;        // stay whole; rising
};

// The layers without which the loss rises most: a fifth of them, at least one.
std::vector<std::int32_t> choose_anchors(const std::vector<double>& layer_loss);

// A level with this share, in (0, 1], of the weights of all layers, within a larger level. It may
// come out a little smaller, and larger where anchors and one unit of each kind in every layer need
// more.
std::vector<LayerWidths> narrow(const WidthsInput& input, Sharing sharing, double share,
                                std::vector<LayerWidths> larger);

}  // namespace outrider
