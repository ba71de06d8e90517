// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/common/engine/model/cpu/kernels/attention_sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "common/engine/model/format/dtype.h"
#include "tests/unit/common/engine/model/cpu/kernels/kernel_samples.h"

namespace outrider {
namespace {

// The second of two heads in pages of 64 slots.
template <class T>
std::vector<T> pages(const AttentionSample& sample, const std::vector<float>& of) {
  const std::int64_t slots = sample.slots, stride = sample.stride;
  std::vector<T> out(static_cast<std::size_t>((slots + 63) / 64 * 128 * stride));
  for (std::int64_t i = 0; i < slots * stride; ++i) {
    const std::int64_t slot = i / stride;
    const std::int64_t at = (slot / 64 * 128 + 64 + slot % 64) * stride + i % stride;
    const float value = of[static_cast<std::size_t>(i)];
    if constexpr (std::is_same_v<T, float>) {
      out[static_cast<std::size_t>(at)] = value;
    } else {
      out[static_cast<std::size_t>(at)] = to_bf16(value);
    }
  }
  return out;
}

template <class T>
std::vector<float> run_on(const AttentionSample& sample, const Kernels& kernels,
                          const std::vector<std::vector<std::int32_t>>& paths,
                          const std::vector<std::int64_t>& begins) {
  const std::int64_t stride = sample.stride, queries = sample.queries;
  const std::vector<T> key_pages = pages<T>(sample, sample.keys);
  const std::vector<T> value_pages = pages<T>(sample, sample.values);
  const std::int64_t partial = stride + kPartialExtra;
  const auto count = static_cast<std::int64_t>(paths.size());
  std::size_t longest = 0;
  for (const auto& path : paths) longest = std::max(longest, path.size());
  const std::int64_t parts =
      (static_cast<std::int64_t>(longest) + kAttentionPart - 1) / kAttentionPart;
  std::vector<float> partials(static_cast<std::size_t>(count * parts * queries * partial));
  for (std::int64_t part = 0; part < parts; ++part) {
    std::vector<AttentionRow> rows;
    for (std::size_t r = 0; r < paths.size(); ++r) {
      const auto place = static_cast<std::int64_t>(r) * parts + part;
      rows.push_back({.queries = sample.query.data(),
                      .partials = partials.data() + place * queries * partial,
                      .path = paths[r].data(),
                      .begin = std::max(begins[r], part * kAttentionPart),
                      .end = std::min(static_cast<std::int64_t>(paths[r].size()),
                                      (part + 1) * kAttentionPart)});
    }
    kernels.attention({.rows = rows.data(),
                       .num_rows = count,
                       .num_queries = queries,
                       .head_stride = stride,
                       .partial_stride = partial,
                       .keys = key_pages.data() + 64 * stride,
                       .values = value_pages.data() + 64 * stride,
                       .is_bf16 = sample.is_bf16,
                       .page_stride = 128 * stride,
                       .scale = 0.25f});
  }
  std::vector<float> out(static_cast<std::size_t>(count * queries * stride));
  for (std::int64_t i = 0; i < count * queries; ++i) {
    kernels.combine_attention(
        partials.data() + (i / queries * parts * queries + i % queries) * partial, parts,
        queries * partial, stride, out.data() + i * stride);
  }
  return out;
}

}  // namespace

std::vector<std::int32_t> slots_in_order(std::int32_t count) {
  std::vector<std::int32_t> path(static_cast<std::size_t>(count));
  std::iota(path.begin(), path.end(), 0);
  return path;
}

std::vector<float> AttentionSample::padded(std::int64_t rows, std::uint32_t seed) const {
  const std::vector<float> source = random_values(static_cast<std::size_t>(rows * head_dim), seed);
  std::vector<float> out(static_cast<std::size_t>(rows * stride), 0.0f);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::copy_n(source.begin() + r * head_dim, head_dim, out.begin() + r * stride);
  }
  if (is_bf16) {
    for (float& value : out) value = from_bf16(to_bf16(value));
  }
  return out;
}

std::vector<float> AttentionSample::run(const Kernels& kernels,
                                        const std::vector<std::vector<std::int32_t>>& paths,
                                        const std::vector<std::int64_t>& begins) const {
  if (is_bf16) return run_on<std::uint16_t>(*this, kernels, paths, begins);
  return run_on<float>(*this, kernels, paths, begins);
}

double AttentionSample::reference(const std::vector<std::int32_t>& path, std::int64_t begin,
                                  std::int64_t q, std::int64_t element) const {
  double sum = 0;
  double weighted = 0;
  for (std::size_t t = static_cast<std::size_t>(begin); t < path.size(); ++t) {
    const auto at = static_cast<std::size_t>(path[t] * stride);
    double dot = 0;
    for (std::int64_t k = 0; k < head_dim; ++k) {
      dot += static_cast<double>(keys[at + static_cast<std::size_t>(k)]) *
             query[static_cast<std::size_t>(q * stride + k)];
    }
    const double weight = std::exp(0.25 * dot);
    sum += weight;
    weighted += weight * values[at + static_cast<std::size_t>(element)];
  }
  return weighted / sum;
}

}  // namespace outrider
