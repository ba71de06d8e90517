// A target and a draft without weights: what follows a text is drawn from the text itself, and the
// draft says the same after a given share of all texts. With them a pair can have the acceptance
// that a paper prints, in no time.
//
// Thread rule: as model.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/model/model.h"

namespace outrider {

class SyntheticModel final : public Model {
 public:
  // agreement: after which share of texts its likeliest token is the target's; 1: it is the target.
  // like: whose vocabulary, context and stop ids it has.
  SyntheticModel(const std::string& name, double agreement, const ModelInfo& like);

  const ModelInfo& info() const override { return info_; }
  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity) override;
  Status forward(std::span<const Row> rows, PassOutput& out) override;

 private:
  void write(std::uint64_t text, std::span<float> logits) const;
  std::size_t drawn_token(std::uint64_t text, std::uint64_t what) const;

  const double agreement_;
  ModelInfo info_;
};

}  // namespace outrider
