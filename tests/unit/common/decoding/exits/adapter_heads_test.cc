// Exit adapters against the formula in plain loops. SPDX-License-Identifier: Apache-2.0
#include "common/decoding/exits/adapter_heads.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/base/thread_pool.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using Vector = std::vector<double>;

Vector rms_norm(const Vector& x, const std::vector<float>& gain, double epsilon) {
  double square = 0;
  for (const double value : x) square += value * value;
  const double scale = 1 / std::sqrt(square / static_cast<double>(x.size()) + epsilon);
  Vector y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * gain[i];
  return y;
}

Vector multiply(const std::vector<std::uint16_t>& weights, const Vector& x) {
  Vector y(weights.size() / x.size());
  for (std::size_t n = 0; n < y.size(); ++n) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[n] += double{from_bf16(weights[n * x.size() + i])} * x[i];
    }
  }
  return y;
}

class AdapterHeadsTest : public ::testing::Test {
 protected:
  AdapterHeadsTest() {
    info_.fingerprint = files_->fingerprint;
    info_.hidden_size = files_->config.hidden_size;
    info_.num_layers = 4;
    info_.vocab_size = files_->config.vocab_size;
    const std::int32_t layers[] = {1, 3};
    adapters_ = random_adapters(info_, layers, 5, 3);
    adapters_.exits[1].norm[2] = 1.5f;
    for (std::size_t i = 0; i < hidden_.size(); ++i) {
      hidden_[i] = std::sin(0.37f * static_cast<float>(i)) * 2;
    }
  }

  std::vector<float> compute(ExitHeads& heads, std::size_t exit, ThreadPool* threads = nullptr) {
    std::vector<float> logits(kRows * static_cast<std::size_t>(info_.vocab_size));
    heads.compute(exit,
                  {.layer = heads.layers()[exit],
                   .first = 0,
                   .count = kRows,
                   .width = kWidth,
                   .values = hidden_.data(),
                   .threads = threads},
                  logits);
    return logits;
  }

  // The logit of a token for a row.
  double expected(std::size_t exit, std::size_t row, TokenId token) const {
    const ExitAdapter& adapter = adapters_.exits[exit];
    const double epsilon = files_->config.rms_norm_eps;
    Vector h(hidden_.begin() + static_cast<std::ptrdiff_t>(row * kWidth),
             hidden_.begin() + static_cast<std::ptrdiff_t>((row + 1) * kWidth));
    Vector inner = multiply(adapter.down, rms_norm(h, adapter.norm, epsilon));
    for (double& value : inner) value = value / (1 + std::exp(-value));
    const Vector change = multiply(adapter.up, inner);
    for (std::size_t i = 0; i < h.size(); ++i) h[i] += change[i];
    std::vector<float> gain(kWidth), weights(kWidth);
    widen(files_->weights.at("model.norm.weight"), 0, gain);
    widen(files_->weights.at("model.embed_tokens.weight"), token * std::int64_t{kWidth}, weights);
    const Vector y = rms_norm(h, gain, epsilon);
    double sum = 0;
    for (std::size_t i = 0; i < kWidth; ++i) sum += y[i] * double{weights[i]};
    return sum;
  }

  static constexpr std::size_t kRows = 3, kWidth = 72;
  TestDirectory directory_;
  std::shared_ptr<const ModelFiles> files_ = small_model(directory_.path(), "llama", DType::kBF16);
  ModelInfo info_;
  ExitAdapters adapters_;
  std::vector<float> hidden_ = std::vector<float>(kRows * kWidth);
};

TEST_F(AdapterHeadsTest, ComputesTheAdapterTheFinalNormAndTheHead) {
  const auto heads = *make_adapter_heads(adapters_, *files_);
  for (std::size_t exit = 0; exit < 2; ++exit) {
    const std::vector<float> logits = compute(*heads, exit);
    for (std::size_t row = 0; row < kRows; ++row) {
      for (TokenId token = 0; token < info_.vocab_size; ++token) {
        const auto at = row * static_cast<std::size_t>(info_.vocab_size);
        const double right = expected(exit, row, token);
        // int8 weights and activations: errors are of the size of the row's largest logits, 7.
        ASSERT_NEAR(logits[at + static_cast<std::size_t>(token)], right, 0.15)
            << "exit " << exit << " row " << row << " token " << token;
      }
    }
  }
}

TEST_F(AdapterHeadsTest, ThreadsChangeNoBit) {
  const auto heads = *make_adapter_heads(adapters_, *files_);
  ThreadPool pool(3);
  EXPECT_EQ(compute(*heads, 1), compute(*heads, 1, &pool));
}

TEST_F(AdapterHeadsTest, AShortlistLeavesTheOtherTokensOut) {
  const auto whole = *make_adapter_heads(adapters_, *files_);
  adapters_.shortlist = {0, 3, 50, 100};
  const auto heads = *make_adapter_heads(adapters_, *files_);
  const std::vector<float> all = compute(*whole, 0), some = compute(*heads, 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto token = static_cast<TokenId>(i % static_cast<std::size_t>(info_.vocab_size));
    const bool listed = token == 0 || token == 3 || token == 50 || token == 100;
    EXPECT_EQ(some[i], listed ? all[i] : -INFINITY) << i;
  }
}

TEST_F(AdapterHeadsTest, AHeadOfAnExitsOwnTakesTheTargetsPlace) {
  adapters_.shortlist = {0, 3, 50};
  std::vector<std::uint16_t> head(3 * kWidth);
  for (std::size_t i = 0; i < head.size(); ++i) {
    head[i] = to_bf16(std::cos(0.11f * static_cast<float>(i)));
  }
  adapters_.exits[0] = {.layer = 1, .head = head};
  const auto heads = *make_adapter_heads(adapters_, *files_);
  const std::vector<float> logits = compute(*heads, 0);
  std::vector<float> gain(kWidth);
  widen(files_->weights.at("model.norm.weight"), 0, gain);
  for (std::size_t row = 0; row < kRows; ++row) {
    const auto* h = hidden_.data() + row * kWidth;
    const Vector right =
        multiply(head, rms_norm(Vector(h, h + kWidth), gain, files_->config.rms_norm_eps));
    const float* found = logits.data() + row * static_cast<std::size_t>(info_.vocab_size);
    EXPECT_NEAR(found[0], right[0], 0.15);
    EXPECT_NEAR(found[3], right[1], 0.15);
    EXPECT_NEAR(found[50], right[2], 0.15);
    EXPECT_EQ(found[1], -INFINITY);
  }
  EXPECT_EQ(compute(*heads, 1), compute(**make_adapter_heads(adapters_, *files_), 1));
}

TEST_F(AdapterHeadsTest, SomeTokensLogitsAreThoseOfAll) {
  const TokensOfRows wanted{.vocab = static_cast<std::size_t>(info_.vocab_size),
                            .rows = {{5, 0, 99}, {}, {100, 3}}};
  for (const bool listed : {false, true}) {
    if (listed) adapters_.shortlist = {0, 3, 50, 100};
    const auto heads = *make_adapter_heads(adapters_, *files_);
    const std::vector<float> all = compute(*heads, 1);
    std::vector<float> some(5);
    heads->compute_some(1,
                        {.layer = 3,
                         .first = 0,
                         .count = kRows,
                         .width = kWidth,
                         .values = hidden_.data(),
                         .threads = nullptr},
                        wanted, some);
    auto found = some.begin();
    for (std::size_t row = 0; row < kRows; ++row) {
      for (const TokenId token : wanted.rows[row]) {
        EXPECT_EQ(*found++, all[row * wanted.vocab + static_cast<std::size_t>(token)])
            << "row " << row << " token " << token << " shortlist " << listed;
      }
    }
  }
}

TEST_F(AdapterHeadsTest, AnExitThatOnlyPrunesIsTheLastAndReportsNothing) {
  const auto all = *make_adapter_heads(adapters_, *files_);
  EXPECT_EQ(all->pruning_layer(), std::nullopt);
  ExitAdapters reporting = adapters_;
  reporting.exits.erase(reporting.exits.begin());
  const auto heads = *make_adapter_heads(reporting, *files_, adapters_.exits[0]);
  EXPECT_THAT(heads->layers(), testing::ElementsAre(3));
  EXPECT_EQ(heads->pruning_layer(), 1);
  std::vector<float> logits(kRows * static_cast<std::size_t>(info_.vocab_size));
  heads->compute(1,
                 {.layer = 1,
                  .first = 0,
                  .count = kRows,
                  .width = kWidth,
                  .values = hidden_.data(),
                  .threads = nullptr},
                 logits);
  EXPECT_EQ(logits, compute(*all, 0));
}

TEST_F(AdapterHeadsTest, AnExitWithoutCalibrationStillRanksItsGuesses) {
  const auto heads = *make_adapter_heads(adapters_, *files_);
  const RowEvidence unsure[] = {{RowKind::kBeyond, 0.1f}}, sure[] = {{RowKind::kBeyond, 5}};
  EXPECT_LT(heads->confidence(0, 0, unsure), heads->confidence(0, 0, sure));
}

}  // namespace
}  // namespace outrider
