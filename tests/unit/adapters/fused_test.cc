// Compares the fused steps with libtorch's own functions, values and gradients.
// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/fused.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace outrider {
namespace {

at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::empty(sizes, at::kFloat).normal_(0, 1, at::detail::createCPUGenerator(seed));
}

using Function = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// Compares values and all gradients of the two functions at `inputs`.
void expect_same(const Function& fused, const Function& plain,
                 const std::vector<at::Tensor>& inputs, double tolerance) {
  const auto run = [&](const Function& function) {
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& input : inputs) {
      leaves.push_back(input.clone().set_requires_grad(true));
    }
    const at::Tensor value = function(leaves).to(at::kFloat);
    (value * random(value.sizes(), 77)).sum().backward();
    std::vector<at::Tensor> results = {value.detach()};
    for (const at::Tensor& leaf : leaves) results.push_back(leaf.grad());
    return results;
  };
  const std::vector<at::Tensor> got = run(fused), want = run(plain);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = (got[i] - want[i]).abs().max().item<double>();
    EXPECT_LE(error, tolerance * std::max(1.0, want[i].abs().max().item<double>()))
        << "result " << i;
  }
}

class Fused : public testing::TestWithParam<at::ScalarType> {
 protected:
  double tolerance() const { return GetParam() == at::kFloat ? 2e-5 : 2e-2; }
  at::Tensor narrowed(const at::Tensor& x) const { return x.to(GetParam()); }
};

TEST_P(Fused, RmsNorm) {
  for (const std::int64_t width : {48, 37}) {
    expect_same([&](const auto& in) { return fused_rms_norm(in[0], in[1], 1e-5, GetParam()); },
                [&](const auto& in) {
                  return narrowed(in[0] * at::rsqrt(in[0].square().mean(-1, true) + 1e-5) * in[1]);
                },
                {random({70, width}, 1), random({width}, 2)}, tolerance());
  }
}

TEST_P(Fused, Residual) {
  expect_same([&](const auto& in) { return fused_residual(in[0], narrowed(in[1])); },
              [&](const auto& in) { return in[0] + narrowed(in[1]).to(at::kFloat); },
              {random({40, 33}, 1), random({40, 33}, 2)}, tolerance());
}

TEST_P(Fused, SwiGlu) {
  expect_same([&](const auto& in) { return fused_swiglu(narrowed(in[0])); },
              [&](const auto& in) {
                const at::Tensor x = narrowed(in[0]);
                return at::silu(x.narrow(1, 0, 24)) * x.narrow(1, 24, 24);
              },
              {random({40, 48}, 1) * 5}, tolerance());
}

TEST_P(Fused, SwiGluSaturatesWithoutOverflow) {
  const at::Tensor both = narrowed(at::tensor({-200.0f, 200.0f, 1.0f, 1.0f}).view({1, 4}));
  const at::Tensor out = fused_swiglu(both).to(at::kFloat);
  EXPECT_NEAR(out[0][0].item<float>(), 0.0f, 1e-6);
  EXPECT_NEAR(out[0][1].item<float>(), 200.0f, 0.5f);
}

TEST_P(Fused, CrossEntropy) {
  const at::Tensor targets = at::arange(50, at::kLong);
  expect_same([&](const auto& in) { return fused_cross_entropy(narrowed(in[0]), targets); },
              [&](const auto& in) {
                return at::cross_entropy_loss(narrowed(in[0]).to(at::kFloat), targets);
              },
              {random({50, 61}, 1) * 4}, tolerance());
}

at::Tensor plain_attention(const at::Tensor& qkv, const at::Tensor& cosine, const at::Tensor& sine,
                           const AttentionShape& s, const at::Tensor& starts = {}) {
  const auto turn = [&](const at::Tensor& x) {
    const std::int64_t half = s.head_dim / 2;
    const at::Tensor c = cosine.narrow(0, 0, s.length), n = sine.narrow(0, 0, s.length);
    const at::Tensor a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
    return at::cat({a * c - b * n, b * c + a * n}, -1);
  };
  const at::Tensor all =
      qkv.to(at::kFloat).view({s.batch, s.length, -1, s.head_dim}).transpose(1, 2);
  const std::int64_t group = s.heads / s.kv_heads;
  const at::Tensor q = turn(all.narrow(1, 0, s.heads));
  const at::Tensor k = turn(all.narrow(1, s.heads, s.kv_heads)).repeat_interleave(group, 1);
  const at::Tensor v = all.narrow(1, s.heads + s.kv_heads, s.kv_heads).repeat_interleave(group, 1);
  const float never = -std::numeric_limits<float>::infinity();
  at::Tensor mask = at::full({s.length, s.length}, never).triu(1);
  if (starts.defined()) {
    const at::Tensor before = at::arange(s.length).lt(starts.view({s.batch, 1, s.length, 1}));
    mask = mask.masked_fill(before, never);
  }
  const at::Tensor scores =
      at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(s.head_dim)) + mask;
  return at::matmul(at::softmax(scores, -1), v)
      .transpose(1, 2)
      .reshape({s.batch * s.length, s.heads * s.head_dim});
}

TEST_P(Fused, AttentionWithinAndBeyondOneBlockOfQueries) {
  for (const std::int64_t length : {1, 17, 150, 300}) {
    const AttentionShape shape{2, length, 4, 2, 8};
    const at::Tensor angle = at::outer(at::arange(length, at::kFloat), random({4}, 3).abs());
    const at::Tensor cosine = angle.cos(), sine = angle.sin();
    expect_same(
        [&](const auto& in) { return fused_attention(narrowed(in[0]), cosine, sine, shape); },
        [&](const auto& in) { return plain_attention(narrowed(in[0]), cosine, sine, shape); },
        {random({2 * length, 64}, 1)}, GetParam() == at::kFloat ? 2e-5 : 4e-2);
  }
}

TEST_P(Fused, AttentionSeesNothingBeforeItsStart) {
  const std::int64_t length = 150;
  const AttentionShape shape{2, length, 4, 2, 8};
  const at::Tensor angle = at::outer(at::arange(length, at::kFloat), random({4}, 3).abs());
  const at::Tensor cosine = angle.cos(), sine = angle.sin();
  at::Tensor starts = at::zeros({2, length}, at::kLong);
  starts.narrow(1, 40, 110).fill_(40);
  starts[1].narrow(0, 131, 19).fill_(131);
  starts = starts.flatten();
  expect_same(
      [&](const auto& in) { return fused_attention(narrowed(in[0]), cosine, sine, shape, starts); },
      [&](const auto& in) { return plain_attention(narrowed(in[0]), cosine, sine, shape, starts); },
      {random({2 * length, 64}, 1)}, GetParam() == at::kFloat ? 2e-5 : 4e-2);
}

TEST_P(Fused, ResultsDoNotDependOnThreads) {
  const AttentionShape shape{3, 140, 4, 2, 8};
  const at::Tensor angle = at::outer(at::arange(140, at::kFloat), random({4}, 3).abs());
  const auto run = [&] {
    const at::Tensor x = random({420, 64}, 1).set_requires_grad(true);
    const at::Tensor y = fused_rms_norm(x, at::ones({64}), 1e-5, GetParam());
    const at::Tensor z = fused_attention(y, angle.cos(), angle.sin(), shape);
    z.to(at::kFloat).square().sum().backward();
    return x.grad().clone();
  };
  at::set_num_threads(1);
  const at::Tensor one = run();
  at::set_num_threads(2);
  EXPECT_TRUE(at::allclose(one, run(), 1e-6, 1e-7));
}

INSTANTIATE_TEST_SUITE_P(Types, Fused, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) {
                           return info.param == at::kFloat ? "f32" : "bf16";
                         });

}  // namespace
}  // namespace outrider
