// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/toy_model.h"

#include <algorithm>
#include <limits>

#include "common/base/status.h"
#include "tests/sim/toy_form.h"

namespace outrider {
namespace {

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

std::vector<float> adjusted_plainly(std::vector<float> row, std::span<const TokenId> text,
                                    std::size_t prompt, std::span<const TokenId> stop_ids,
                                    const ChoiceSettings& settings) {
  const std::span<const TokenId> answer = text.subspan(prompt);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    const auto times = std::ranges::count(answer, token);
    if (std::ranges::count(text, token) > 0 && settings.repetition_penalty != 1) {
      row[i] =
          row[i] > 0 ? row[i] / settings.repetition_penalty : row[i] * settings.repetition_penalty;
    }
    row[i] -= settings.frequency_penalty * static_cast<float>(times);
    if (times > 0) row[i] -= settings.presence_penalty;
    for (const LogitBias& one : settings.logit_bias) row[i] += one.token == token ? one.bias : 0;
    if (std::ssize(answer) < settings.min_tokens && std::ranges::count(stop_ids, token) > 0) {
      row[i] = -kInfinity;
    }
  }
  for (const std::vector<TokenId>& word : settings.bad_words) {
    const std::span<const TokenId> before = std::span(word).first(word.size() - 1);
    if (before.size() > answer.size()) continue;
    if (std::ranges::equal(before, answer.last(before.size()))) {
      row[static_cast<std::size_t>(word.back())] = -kInfinity;
    }
  }
  if (!settings.constraint.asks()) return row;
  const auto& form = dynamic_cast<const ToyForm&>(*settings.constraint.compiled);
  const AllowedTokens allowed = form.allowed_after(answer);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    const bool stops = std::ranges::count(stop_ids, token) > 0;
    if (stops ? !allowed.may_end : !allowed.has(token)) row[i] = -kInfinity;
  }
  return row;
}

ChoiceSettings drawn_settings(SeededRandom& random, std::int32_t vocab_size) {
  const auto token = [&] {
    return static_cast<TokenId>(random.below(static_cast<std::uint64_t>(vocab_size)));
  };
  const auto drawn = [&](float least, float most) {
    return least + (most - least) * static_cast<float>(random.below(9)) / 8;
  };
  ChoiceSettings settings;
  if (random.chance(0.5)) settings.presence_penalty = drawn(-2, 2);
  if (random.chance(0.5)) settings.frequency_penalty = drawn(-2, 2);
  if (random.chance(0.5)) settings.repetition_penalty = drawn(0.5f, 3);
  if (random.chance(0.3)) settings.logit_bias = {{token(), drawn(-4, 4)}};
  if (random.chance(0.3)) settings.min_tokens = random.between(1, 20);
  // All words end with the same token, so that another token is always allowed.
  const TokenId last = token();
  for (std::uint64_t words = random.chance(0.5) ? random.below(4) : 0; words > 0; --words) {
    std::vector<TokenId>& word = settings.bad_words.emplace_back();
    for (std::uint64_t before = random.below(3); before > 0; --before) word.push_back(token());
    word.push_back(last);
  }
  if (!random.chance(0.3)) return settings;
  settings.constraint = ToyForm::drawn(random, vocab_size);
  // Other settings that forbid tokens might leave none.
  if (settings.constraint.asks()) settings.min_tokens = 0;
  if (settings.constraint.asks()) settings.bad_words.clear();
  return settings;
}

ToyModel::ToyModel(std::int32_t vocab_size, Position max_positions) {
  info_.name = "toy";
  info_.architecture = "toy";
  info_.fingerprint = "f00d";
  info_.arithmetic_id = "a51d";
  info_.dtype = "f32";
  info_.vocab_size = vocab_size;
  info_.max_positions = max_positions;
  info_.num_layers = 4;
  info_.hidden_size = static_cast<std::int32_t>(max_positions) + 1;
}

void write_token(const Row& row) {
  static_cast<ToyPages&>(row.cache->pages()).of(row) = row.token;
}

std::vector<TokenId> read_path(const Row& row) {
  std::vector<KvCell> path;
  row.cache->slots().path(row.slot, path);
  std::vector<TokenId> text;
  for (const KvCell cell : path) {
    text.push_back(static_cast<ToyPages&>(row.cache->pages()).at(cell));
  }
  return text;
}

Result<std::shared_ptr<KvPages>> ToyModel::new_pages(std::int32_t count) {
  return std::shared_ptr<KvPages>(std::make_shared<ToyPages>(this, count));
}

Status ToyModel::forward(std::span<const Row> rows, PassOutput& out) {
  OUTRIDER_CHECK(held_.empty());  // end() came
  out.row_logits = nullptr;
  held_back_.wait(true);
  if (failing_passes_ > 0) {
    --failing_passes_;
    return resource_exhausted("toy: no memory");
  }
  if (broken_passes_ > 0) {
    --broken_passes_;
    return internal_error("toy: illegal address in kernel.cu");
  }
  out.vocab_size = info_.vocab_size;
  out.logits.clear();
  out.places.clear();
  std::vector<std::vector<TokenId>> texts;  // of the rows that want logits
  for (const Row& row : rows) {
    write_token(row);
    if (row.wants_logits) texts.push_back(read_path(row));
  }
  for (std::int32_t layer = 1; layer <= info_.num_layers && out.on_layer_done; ++layer) {
    out.on_layer_done(layer, info_.num_layers);
  }
  if (out.tap != nullptr && !texts.empty()) show(*out.tap, texts);
  if (out.pruner != nullptr && !texts.empty()) prune(texts, out);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!out.has_row(i)) continue;
    const std::vector<float> logits = logits_after(texts[i]);
    out.logits.insert(out.logits.end(), logits.begin(), logits.end());
  }
  if (spoiled_passes_ > 0 && !texts.empty()) {
    --spoiled_passes_;
    const auto row = out.logits.end() - info_.vocab_size;
    std::fill(row, out.logits.end(), -std::numeric_limits<float>::infinity());
    *row = std::numeric_limits<float>::quiet_NaN();
  }
  if (out.on_demand && !out.logits.empty()) {
    held_ = out.logits;
    std::ranges::fill(out.logits, std::numeric_limits<float>::quiet_NaN());
    out.row_logits = this;
  }
  return {};
}

Status ToyModel::compute(std::span<const std::size_t> rows, PassOutput& out) {
  const auto vocab = static_cast<std::size_t>(info_.vocab_size);
  for (const std::size_t row : rows) {
    const std::size_t place =
        out.places.empty() ? row : static_cast<std::size_t>(out.places.at(row));
    OUTRIDER_CHECK((place + 1) * vocab <= held_.size());
    std::copy_n(held_.data() + place * vocab, vocab, out.logits.data() + place * vocab);
    ++rows_demanded_;
  }
  return {};
}

std::vector<float> ToyModel::hidden_of(const std::vector<std::vector<TokenId>>& texts) const {
  const auto width = static_cast<std::size_t>(info_.hidden_size);
  std::vector<float> hidden(texts.size() * width, -1.0f);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::copy(texts[i].begin(), texts[i].end(),
              hidden.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  return hidden;
}

void ToyModel::prune(const std::vector<std::vector<TokenId>>& texts, PassOutput& out) const {
  std::vector<std::uint8_t> keep(texts.size(), 1);
  const std::vector<float> hidden = hidden_of(texts);
  for (std::int32_t layer = 1; layer < info_.num_layers; ++layer) {
    if (!out.pruner->wants(layer)) continue;
    out.pruner->prune({.layer = layer,
                       .first = 0,
                       .count = texts.size(),
                       .width = static_cast<std::size_t>(info_.hidden_size),
                       .values = hidden.data(),
                       .threads = nullptr},
                      keep);
  }
  std::int32_t place = 0;
  for (const std::uint8_t kept : keep) out.places.push_back(kept != 0 ? place++ : -1);
}

// In two parts if there are rows enough, as backends with small tiles do.
void ToyModel::show(LayerTap& tap, const std::vector<std::vector<TokenId>>& texts) const {
  const auto width = static_cast<std::size_t>(info_.hidden_size);
  const std::vector<float> hidden = hidden_of(texts);
  const std::size_t first = texts.size() / 3;
  for (const auto& [begin, end] :
       {std::pair(std::size_t{0}, first), std::pair(first, texts.size())}) {
    for (std::int32_t layer = 1; layer < info_.num_layers && begin < end; ++layer) {
      if (!tap.wants(layer)) continue;
      tap.on_layer({.layer = layer,
                    .first = begin,
                    .count = end - begin,
                    .width = width,
                    .values = hidden.data() + begin * width,
                    .threads = nullptr});
    }
  }
}

std::vector<TokenId> ToyModel::text_of_hidden(std::span<const float> row) {
  std::vector<TokenId> text;
  for (const float token : row) {
    if (token < 0) break;
    text.push_back(static_cast<TokenId>(token));
  }
  return text;
}

std::vector<float> ToyModel::logits_after(std::span<const TokenId> text) const {
  std::uint64_t hash = 0;
  for (const TokenId token : text) hash = mix(hash ^ static_cast<std::uint64_t>(token + 1));
  std::vector<float> logits;
  for (std::int32_t token = 0; token < info_.vocab_size; ++token) {
    const std::uint64_t bits = mix(hash + static_cast<std::uint64_t>(token) * 7919u) >> 40;
    logits.push_back(static_cast<float>(bits) / 0x1p22f);  // 0 to 4
  }
  return logits;
}

std::vector<TokenId> ToyModel::decode(std::span<const TokenId> prefix, Position end_position,
                                      const SamplingParams& sampling, std::uint64_t seed,
                                      std::span<const TokenId> stop_ids,
                                      const ChoiceSettings& settings) const {
  std::vector<TokenId> text(prefix.begin(), prefix.end());
  const Position end = std::min(end_position, info_.max_positions);
  while (static_cast<Position>(text.size()) < end) {
    const auto position = static_cast<Position>(text.size());
    const std::vector<float> row =
        adjusted_plainly(logits_after(text), text, prefix.size(), stop_ids, settings);
    if (std::ranges::max(row) == -kInfinity) break;  // the session fails there
    text.push_back(choose(row, sampling, seed, position));
    if (std::find(stop_ids.begin(), stop_ids.end(), text.back()) != stop_ids.end()) break;
  }
  return text;
}

}  // namespace outrider
