// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/emulated/null_model.h"

#include <algorithm>
#include <string>

#include "common/base/sha256.h"
#include "common/engine/model/row_check.h"

namespace outrider {
namespace {

// Each peak is 1 above the next.
constexpr int kNumPeaks = 8;

// SplitMix64's output function (Steele, Lea and Flood 2014).
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

class NullModel final : public Model {
 public:
  explicit NullModel(const NullModelOptions& options) {
    info_.name = "null";
    info_.architecture = "null";
    info_.dtype = "f32";
    info_.vocab_size = options.vocab_size;
    info_.max_positions = options.max_positions;
    Sha256 hash;
    hash.update("outrider null model 1, vocabulary " + std::to_string(options.vocab_size));
    info_.fingerprint = hash.finish_hex();
    info_.arithmetic_id = info_.fingerprint;
  }

  const ModelInfo& info() const override { return info_; }

  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return std::shared_ptr<KvPages>(std::make_shared<KvPages>(this, count));
  }

  Status forward(std::span<const Row> rows, PassOutput& out) override {
    OUTRIDER_RETURN_IF_ERROR(check_rows(rows, info_, this));
    const auto width = static_cast<std::size_t>(info_.vocab_size);
    const auto wanted =
        std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.wants_logits; });
    out.vocab_size = info_.vocab_size;
    out.logits.assign(static_cast<std::size_t>(wanted) * width, 0.0f);
    float* logits = out.logits.data();
    for (const Row& row : rows) {
      if (!row.wants_logits) continue;
      add_peaks(row, logits);
      logits += width;
    }
    return {};
  }

 private:
  void add_peaks(const Row& row, float* logits) const {
    const auto position = static_cast<std::uint64_t>(row.cache->slots().position(row.slot));
    std::uint64_t state = mix(position << 32 | static_cast<std::uint32_t>(row.token));
    for (int peak = 0; peak < kNumPeaks; ++peak) {
      state = mix(state + 0x9e3779b97f4a7c15);
      logits[state % static_cast<std::uint64_t>(info_.vocab_size)] = static_cast<float>(peak + 1);
    }
  }

  ModelInfo info_;
};

}  // namespace

std::unique_ptr<Model> make_null_model(const NullModelOptions& options) {
  OUTRIDER_CHECK(options.vocab_size > 0);
  return std::make_unique<NullModel>(options);
}

}  // namespace outrider
