// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/exits/adapters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/engine/model/format/dtype.h"
#include "common/engine/model/format/model_writer.h"

namespace outrider {
namespace {

std::string list_of(std::span<const std::int32_t> layers) {
  std::string text;
  for (const std::int32_t layer : layers) {
    text += (text.empty() ? "" : ",") + std::to_string(layer);
  }
  return text;
}

std::vector<std::int32_t> layers_of(const ExitAdapters& adapters) {
  std::vector<std::int32_t> layers;
  for (const ExitAdapter& exit : adapters.exits) layers.push_back(exit.layer);
  return layers;
}

// "3,6,9", rising and without repeats.
Result<std::vector<std::int32_t>> parse_layers(std::string_view text) {
  std::vector<std::int32_t> layers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end || layers.empty()) {
    std::int32_t layer = 0;
    const auto [rest, error] = std::from_chars(at, end, layer);
    const bool sound = error == std::errc() && (layers.empty() || layer > layers.back());
    if (!sound || (rest != end && (*rest != ',' || rest + 1 == end))) {
      return invalid_argument("exits \"" + std::string(text.substr(0, 60)) +
                              "\": must be auto, none, all, or rising layers like 3,6,9");
    }
    layers.push_back(layer);
    at = rest == end ? end : rest + 1;
  }
  return layers;
}

std::vector<std::uint16_t> random_matrix(std::uint64_t seed, const std::string& name,
                                         std::int64_t rows, std::int64_t columns) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  random_tensor(seed, {name, {rows, columns}}, 0, values);
  std::vector<std::uint16_t> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(), to_bf16);
  return narrow;
}

}  // namespace

std::int64_t considered_tokens(const ExitAdapters& adapters) {
  return adapters.shortlist.empty() ? adapters.vocab_size : std::ssize(adapters.shortlist);
}

ExitAdapters random_adapters(const ModelInfo& target, std::span<const std::int32_t> layers,
                             std::int32_t bottleneck, std::uint64_t seed) {
  ExitAdapters adapters{.fingerprint = target.fingerprint,
                        .hidden_size = target.hidden_size,
                        .num_layers = target.num_layers,
                        .vocab_size = target.vocab_size,
                        .shortlist = {},
                        .exits = {},
                        .chosen = {layers.begin(), layers.end()}};
  for (const std::int32_t layer : layers) {
    const std::string name = "exits." + std::to_string(layer) + ".";
    ExitAdapter exit{.layer = layer, .bottleneck = bottleneck};
    exit.norm.assign(static_cast<std::size_t>(target.hidden_size), 1.0f);
    exit.down = random_matrix(seed, name + "down", bottleneck, target.hidden_size);
    exit.up = random_matrix(seed, name + "up", target.hidden_size, bottleneck);
    adapters.exits.push_back(std::move(exit));
  }
  return adapters;
}

bool reads_target_s_head(const ExitAdapters& adapters) {
  return std::ranges::any_of(adapters.exits,
                             [](const ExitAdapter& exit) { return exit.head.empty(); });
}

Status check_target(const ExitAdapters& adapters, const ModelInfo& target) {
  if (adapters.fingerprint != target.fingerprint) {
    return failed_precondition("adapters are for the target with fingerprint " +
                               adapters.fingerprint + "; this one (" + target.name + ") has " +
                               target.fingerprint +
                               ". Remedy: train exits for this target (`outrider-train exits`), or "
                               "move adapters.json out of its folder");
  }
  // The same fingerprint implies the same shape; a file with another one was edited.
  if (adapters.hidden_size == target.hidden_size && adapters.num_layers == target.num_layers &&
      adapters.vocab_size == target.vocab_size) {
    return {};
  }
  return failed_precondition(
      "adapters name this target but have another shape: hidden_size " +
      std::to_string(adapters.hidden_size) + ", num_layers " + std::to_string(adapters.num_layers) +
      ", vocab_size " + std::to_string(adapters.vocab_size) + "; expected " +
      std::to_string(target.hidden_size) + ", " + std::to_string(target.num_layers) + ", " +
      std::to_string(target.vocab_size));
}

Result<ExitAdapters> select_exits(ExitAdapters adapters, std::string_view wanted) {
  if (wanted == "all") return adapters;
  std::vector<std::int32_t> layers = adapters.chosen;
  if (wanted != "auto") {
    OUTRIDER_ASSIGN_OR_RETURN(layers, parse_layers(wanted));
  }
  const std::vector<std::int32_t> known = layers_of(adapters);
  for (const std::int32_t layer : layers) {
    if (std::find(known.begin(), known.end(), layer) == known.end()) {
      return invalid_argument("exits: there is no adapter after layer " + std::to_string(layer) +
                              "; these have one: " + list_of(known));
    }
  }
  std::erase_if(adapters.exits, [&](const ExitAdapter& exit) {
    return std::find(layers.begin(), layers.end(), exit.layer) == layers.end();
  });
  adapters.chosen = std::move(layers);
  return adapters;
}

}  // namespace outrider
