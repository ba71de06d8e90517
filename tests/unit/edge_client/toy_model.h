// A language model small enough to reason about: the logits of a row are a hash of the tokens on
// its path, so a wrong token, slot or position anywhere in a cache shows at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/model/model.h"
#include "common/sampling/sampling.h"

namespace outrider {

struct ToyOptions {
  std::int32_t vocab_size = 13;
  Position max_positions = 1000;
  std::uint64_t seed = 1;
  // How far this model strays from the one with the same seed and 0 here. 0.5 agrees mostly.
  float strays = 0;
  std::vector<TokenId> stop_ids = {};
};

class ToyModel final : public Model {
 public:
  explicit ToyModel(const ToyOptions& options) : options_(options) {
    info_.name = "toy";
    info_.architecture = "null";
    info_.fingerprint = "f" + std::to_string(options.seed);
    info_.arithmetic_id = "a" + std::to_string(options.seed);
    info_.vocab_size = options.vocab_size;
    info_.max_positions = options.max_positions;
    info_.stop_ids = options.stop_ids;
  }

  const ModelInfo& info() const override { return info_; }

  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity) override {
    return std::unique_ptr<KvCache>(new Cache(capacity));
  }

  Status forward(std::span<const Row> rows, PassOutput& out) override {
    out.vocab_size = options_.vocab_size;
    out.logits.clear();
    ++passes;
    rows_run += rows.size();
    for (const Row& row : rows) {
      auto& cache = static_cast<Cache&>(*row.cache);
      if (row.token < 0 || row.token >= options_.vocab_size) return invalid_argument("token");
      if (cache.slots().position(row.slot) >= options_.max_positions) {
        return invalid_argument("position");
      }
      cache.tokens[static_cast<std::size_t>(row.slot)] = row.token;
      if (row.wants_logits) append_logits(cache, row.slot, out.logits);
    }
    return {};
  }

  // What the model says after `text`: [vocab].
  std::vector<float> logits_after(std::span<const TokenId> text) const {
    std::uint64_t hash = options_.seed;
    for (const TokenId token : text) hash = mix(hash, static_cast<std::uint64_t>(token));
    std::vector<float> logits;
    for (std::int32_t v = 0; v < options_.vocab_size; ++v) {
      const auto token = static_cast<std::uint64_t>(v);
      logits.push_back(4 * unit(mix(hash, token)) +
                       4 * options_.strays * unit(mix(hash ^ 0x5bd1e995, token)));
    }
    return logits;
  }

  int passes = 0;
  std::size_t rows_run = 0;

 private:
  struct Cache final : KvCache {
    explicit Cache(std::int32_t capacity)
        : KvCache(capacity), tokens(static_cast<std::size_t>(capacity), -1) {}
    std::vector<TokenId> tokens;  // by slot
  };

  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = a * 0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  static float unit(std::uint64_t x) { return static_cast<float>(x >> 40) / float{1 << 24}; }

  void append_logits(const Cache& cache, Slot slot, std::vector<float>& logits) {
    cache.slots().path(slot, path_);
    text_.clear();
    for (const Slot s : path_) text_.push_back(cache.tokens[static_cast<std::size_t>(s)]);
    const std::vector<float> row = logits_after(text_);
    logits.insert(logits.end(), row.begin(), row.end());
  }

  const ToyOptions options_;
  ModelInfo info_;
  std::vector<Slot> path_;
  std::vector<TokenId> text_;
};

// What plain decoding with this model would write after `text`, up to `end` positions.
inline std::vector<TokenId> decode_alone(const ToyModel& model, std::vector<TokenId> text,
                                         Position end, const SamplingParams& sampling = {},
                                         std::uint64_t seed = 0) {
  const std::size_t prompt = text.size();
  while (static_cast<Position>(text.size()) < end) {
    const auto t = static_cast<Position>(text.size());
    text.push_back(choose(model.logits_after(text), sampling, seed, t));
    const std::vector<TokenId>& stops = model.info().stop_ids;
    if (std::find(stops.begin(), stops.end(), text.back()) != stops.end()) break;
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(prompt), text.end()};
}

}  // namespace outrider
