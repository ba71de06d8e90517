// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/generation_config.h"

#include "common/base/address.h"
#include "common/model/cpu/model_pack.h"

namespace outrider {

bool wants_draft(const GenerationConfig& config) {
  const std::optional<Strategy>& strategy = config.answer.strategy;
  return strategy ? *strategy != Strategy::kAr : !config.model.empty();
}

Strategy strategy_of(const AnswerConfig& config) {
  return config.strategy.value_or(Strategy::kMirror);
}

Status validate(const GenerationConfig& config) {
  OUTRIDER_RETURN_IF_ERROR(validate(config.answer.sampling));
  if (wants_draft(config) && config.model.empty()) {
    return invalid_argument(std::string("--strategy ") + name_of(strategy_of(config.answer)) +
                            " needs a draft: name its directory with --model");
  }
  if (!config.target.empty()) {
    const bool streams = config.memory_budget > 0 || config.flash_bandwidth > 0;
    if (!streams || ModelPack::is_pack(config.target)) return {};
    return invalid_argument("--memory-budget and --flash-bandwidth need a pack, and --target " +
                            config.target + " is none. Remedy: outrider-edge pack --model " +
                            config.target + " --out FILE.pack, and --target FILE.pack");
  }
  return parse_address(config.server).status();
}

Result<std::string> tokenizer_directory(const GenerationConfig& config) {
  if (!config.tokenizer.empty()) return config.tokenizer;
  if (!config.model.empty()) return config.model;
  if (!config.target.empty()) return config.target;
  return invalid_argument(
      "which tokenizer? name its directory with --tokenizer, or a draft with --model");
}

}  // namespace outrider
