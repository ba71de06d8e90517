// SPDX-License-Identifier: Apache-2.0
#include "sim/synthetic_pair.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "common/engine/model/cell_values.h"
#include "emulation/random/random.h"

namespace outrider {
namespace {

// The target's logits for its likeliest tokens, descending; all others are 0.
constexpr float kRanked[] = {9, 6, 5, 4, 3};
// The draft's mean confidence in a token that the target also chooses, and in another one.
constexpr double kSureRight = 0.8, kSureWrong = 0.5, kSureSpread = 0.18;
// If the draft's first choice is wrong, the second one is right with this probability.
constexpr double kSecondIsRight = 0.4;
// Between the numbers that one draft draws by and those of the next.
constexpr std::uint64_t kNextDraw = 1 << 30;

double share_of(std::uint64_t text, std::uint64_t what) {
  return unit(mixed(text ^ mixed(what)));
}

// A hash of the text up to each row.
using TextHashes = CellValues<std::uint64_t>;

}  // namespace

SyntheticModel::SyntheticModel(const std::string& name, double agreement, const ModelInfo& like,
                               std::uint64_t draw)
    : agreement_(agreement), draw_(draw * kNextDraw), info_(like) {
  info_.name = name;
  info_.architecture = "synthetic";
  info_.fingerprint = name;
  info_.arithmetic_id = name;
}

Result<std::shared_ptr<KvPages>> SyntheticModel::new_pages(std::int32_t count) {
  return std::shared_ptr<KvPages>(std::make_shared<TextHashes>(this, count));
}

Status SyntheticModel::forward(std::span<const Row> rows, PassOutput& out) {
  if (out.is_abandoned()) return cancelled("the pass was abandoned");
  out.vocab_size = info_.vocab_size;
  const auto vocab = static_cast<std::size_t>(info_.vocab_size);
  out.logits.clear();
  for (const Row& row : rows) {
    auto& hashes = static_cast<TextHashes&>(row.cache->pages());
    const std::uint64_t text =
        mixed(hashes.before(row, 0) ^ mixed(static_cast<std::uint64_t>(row.token) + 1));
    hashes.of(row) = text;
    if (!row.wants_logits) continue;
    out.logits.resize(out.logits.size() + vocab);
    write(text, std::span(out.logits).last(vocab));
  }
  return {};
}

// No token that ends the answer.
std::size_t SyntheticModel::drawn_token(std::uint64_t text, std::uint64_t what) const {
  for (std::uint64_t again = 0;; ++again) {
    const auto token = static_cast<TokenId>(share_of(text, what + 1000 * again) * info_.vocab_size);
    if (std::ranges::find(info_.stop_ids, token) == info_.stop_ids.end()) {
      return static_cast<std::size_t>(token);
    }
  }
}

void SyntheticModel::write(std::uint64_t text, std::span<float> logits) const {
  const std::size_t targets = drawn_token(text, 0);
  if (agreement_ >= 1) {
    for (std::size_t rank = std::size(kRanked); rank-- > 0;) {
      logits[drawn_token(text, rank)] = kRanked[rank];
    }
    return;
  }
  const bool right = share_of(text, draw_ + 100) < agreement_;
  const double sure =
      (right ? kSureRight : kSureWrong) + (2 * share_of(text, draw_ + 101) - 1) * kSureSpread;
  const auto first =
      static_cast<float>(std::log(sure / (1 - sure) * static_cast<double>(info_.vocab_size - 1)));
  const bool second_is_right = !right && share_of(text, draw_ + 102) < kSecondIsRight;
  logits[drawn_token(text, draw_ + 200)] = first / 2;
  if (second_is_right) logits[targets] = 0.8f * first;
  logits[right ? targets : drawn_token(text, draw_ + 201)] = first;
}

namespace {

// Nearly normal, with mean 0 and deviation 1: the sum of four uniform parts of 16 bits.
float noise_at(Position position, std::size_t token) {
  const std::uint64_t bits =
      scrambled(static_cast<std::uint64_t>(position) * kGoldenStep + token + 1);
  const auto part = [bits](int at) { return static_cast<float>((bits >> (16 * at)) & 0xffff); };
  const float sum = (part(0) + part(1) + part(2) + part(3)) / 65536.0f;
  return (sum - 2.0f) * 1.7320508f;
}

}  // namespace

Status NoisyModel::forward(std::span<const Row> rows, PassOutput& out) {
  OUTRIDER_RETURN_IF_ERROR(model_->forward(rows, out));
  float* logit = out.logits.data();
  for (const Row& row : rows) {
    if (!row.wants_logits) continue;
    const Position position = row.cache->slots().position(row.slot);
    for (std::int32_t token = 0; token < out.vocab_size; ++token) {
      *logit++ += deviation_ * noise_at(position, static_cast<std::size_t>(token));
    }
  }
  return {};
}

namespace {

// On average an exit that is right is more confident by twice this; the two distributions overlap.
constexpr double kSurer = 0.08;
constexpr double kSpread = 0.2;
constexpr double kMinSure = 0.02, kMaxSure = 0.98;
// Exits next to each other are wrong in the same way.
constexpr std::size_t kAlikeExits = 6;

// A number from 0 to 1 that depends on the row's own number and on its purpose.
double drawn(double row, std::uint64_t what) {
  return unit(scrambled(std::bit_cast<std::uint64_t>(row) ^ scrambled(what + 1)));
}

double between(std::span<const Knot> knots, double x) {
  if (x <= knots.front().x) return knots.front().y;
  for (std::size_t i = 1; i < knots.size(); ++i) {
    const Knot &low = knots[i - 1], &high = knots[i];
    if (x <= high.x) return low.y + (high.y - low.y) * (x - low.x) / (high.x - low.x);
  }
  return knots.back().y;
}

// Writes into `row` the likeliest tokens and a number of its own.
void rank_row(std::span<const float> logits, std::span<float> row) {
  std::array<std::size_t, RankedTokensModel::kTokens> best{};
  std::size_t count = 0;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (count == best.size() && logits[token] <= logits[best[count - 1]]) continue;
    if (count < best.size()) ++count;
    std::size_t at = count - 1;
    for (; at > 0 && logits[best[at - 1]] < logits[token]; --at) best[at] = best[at - 1];
    best[at] = token;
  }
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < best.size(); ++i) {
    const std::size_t token = best[std::min(i, count - 1)];
    row[i] = static_cast<float>(token);
    hash = scrambled(hash ^ std::bit_cast<std::uint32_t>(logits[token]) ^ (token << 32));
  }
  row[RankedTokensModel::kTokens] = static_cast<float>(unit(scrambled(hash)));
}

}  // namespace

double ExitCurve::match_at(double depth) const {
  return std::clamp(between(match, depth), 0.0, 1.0);
}

double ExitCurve::confidence_at(double depth) const {
  return between(confidence, depth);
}

ExitCurve figure7_curve(double scale) {
  ExitCurve curve{.match = {{0, 0.20}, {0.25, 0.28}, {0.5, 0.38}, {0.75, 0.72}, {1, 1}},
                  .confidence = {{0, 0.30}, {0.25, 0.45}, {0.5, 0.65}, {0.7, 0.82}, {1, 0.88}}};
  for (Knot& knot : curve.match) knot.y = std::min(1.0, knot.y * scale);
  return curve;
}

RankedTokensModel::RankedTokensModel(Model& model, std::int32_t layers)
    : model_(model), info_(model.info()) {
  info_.num_layers = layers;
  info_.hidden_size = static_cast<std::int32_t>(kWidth);
}

Status RankedTokensModel::forward(std::span<const Row> rows, PassOutput& out) {
  LayerTap* const tap = std::exchange(out.tap, nullptr);
  const Status status = model_.forward(rows, out);
  out.tap = tap;
  if (status.ok() && tap != nullptr && !out.logits.empty()) show(*tap, out);
  return status;
}

void RankedTokensModel::show(LayerTap& tap, const PassOutput& out) {
  const std::size_t count = out.logits.size() / static_cast<std::size_t>(out.vocab_size);
  shown_.resize(count * kWidth);
  for (std::size_t i = 0; i < count; ++i) {
    rank_row(out.row(i), std::span(shown_).subspan(i * kWidth, kWidth));
  }
  for (std::int32_t layer = 1; layer < info_.num_layers; ++layer) {
    if (!tap.wants(layer)) continue;
    tap.on_layer(
        {.layer = layer, .first = 0, .count = count, .width = kWidth, .values = shown_.data()});
  }
}

SyntheticExits::SyntheticExits(ExitCurve curve, std::int32_t layers) : curve_(std::move(curve)) {
  for (std::int32_t layer = 1; layer < layers; ++layer) layers_.push_back(layer);
}

double SyntheticExits::depth(std::size_t exit) const {
  return static_cast<double>(layers_[exit]) / static_cast<double>(layers_.size() + 1);
}

bool SyntheticExits::is_right(std::size_t exit, double row, double pass) const {
  if (!curve_.arrival) return drawn(row, 0) < curve_.match_at(depth(exit));
  const auto [miss_rate, mean] = *curve_.arrival;
  return drawn(pass, 1) >= miss_rate && depth(exit) >= mean * (0.5 + drawn(pass, 2));
}

// One token stands out by the exit's confidence.
void SyntheticExits::compute(std::size_t exit, const HiddenRows& rows, std::span<float> logits) {
  std::ranges::fill(logits, 0.0f);
  const std::size_t vocab = logits.size() / rows.count;
  const double mean = curve_.confidence_at(depth(exit));
  for (std::size_t i = 0; i < rows.count; ++i) {
    const std::span<const float> row = rows.row(i);
    const double own = row[RankedTokensModel::kTokens];
    const bool right = is_right(exit, own, rows.row(0)[RankedTokensModel::kTokens]);
    const std::uint64_t alike = 16 + exit / kAlikeExits;
    const auto wrong =
        1 + static_cast<std::size_t>(drawn(own, alike) * double{RankedTokensModel::kTokens - 1});
    const auto token = static_cast<std::size_t>(row[right ? 0 : wrong]);
    const double noise = (2 * drawn(own, 64 + exit) - 1) * kSpread;
    const double sure = std::clamp(mean + (right ? kSurer : -kSurer) + noise, kMinSure, kMaxSure);
    logits[i * vocab + token] =
        static_cast<float>(std::log(sure / (1 - sure) * static_cast<double>(vocab - 1)));
  }
}

// The confidence that the exit's distributions imply: higher than a wrong exit can have means
// right, lower than a right exit can have means wrong, and in between the match decides.
double SyntheticExits::confidence(std::size_t exit, double /*temperature*/,
                                  std::span<const RowEvidence> rows) const {
  const double mean = curve_.confidence_at(depth(exit));
  const double match =
      curve_.arrival ? 1 - curve_.arrival->miss_rate : curve_.match_at(depth(exit));
  double all = 1;
  for (const RowEvidence& row : rows) {
    const double beyond = std::exp(-double{row.spread}) - mean;
    const double overlap = kSpread - kSurer;
    all *= beyond > overlap ? kMaxSure : beyond < -overlap ? kMinSure : match;
  }
  return all;
}

}  // namespace outrider
