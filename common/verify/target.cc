// SPDX-License-Identifier: Apache-2.0
#include "common/verify/target.h"

#include <algorithm>
#include <limits>

#include "common/exits/exit_heads.h"

namespace outrider {
namespace {

std::vector<std::int32_t> exit_layers(const SchedulerOptions& options) {
  if (options.exits == nullptr) return {};
  const auto layers = options.exits->layers();
  return {layers.begin(), layers.end()};
}

}  // namespace

Target make_target(const ModelInfo& model, const SchedulerOptions& options) {
  const Position max_positions = options.max_positions > 0
                                     ? std::min(options.max_positions, model.max_positions)
                                     : model.max_positions;
  return {.model = model,
          .tokenizer_hash = options.tokenizer_hash,
          .limits = {.max_nodes = std::max(options.max_nodes, Limits{}.max_nodes),
                     .max_rows = std::max(options.max_rows, 1u),
                     .run_ahead = std::max(options.run_ahead, 1u),
                     .max_message_bytes = options.max_message_bytes,
                     .max_positions = max_positions,
                     .vocab_size = model.vocab_size,
                     .max_patience = kMaxPatience,
                     .open_timeout = options.open_timeout,
                     .idle_timeout = options.idle_timeout,
                     .pass_limit = options.pass_limit},
          .exits = exit_layers(options)};
}

std::int32_t cache_capacity(const Limits& limits) {
  const Position slots = limits.max_positions + limits.max_rows;
  return static_cast<std::int32_t>(
      std::min<Position>(slots, std::numeric_limits<std::int32_t>::max()));
}

}  // namespace outrider
