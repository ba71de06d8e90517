// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/cases/kernel_cases.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>

#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/cuda/cases/drawn.h"
#include "common/engine/model/cuda/kernels/lane_panels.h"

namespace outrider::gpu {
namespace {

constexpr float kLargeActivation = 1e30f;
constexpr float kLargeWeight = 6e4f;

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

std::vector<float> poisoned(std::int64_t count) {
  return std::vector<float>(size(count), -7.0f);
}

template <class T>
void compare(const std::vector<T>& cpu, const std::vector<T>& device, CaseResult& result) {
  result.outputs += static_cast<std::int64_t>(cpu.size());
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    result.different += std::memcmp(&cpu[i], &device[i], sizeof(T)) != 0 ? 1 : 0;
    if constexpr (std::is_same_v<T, float>) result.not_numbers += std::isfinite(cpu[i]) ? 0 : 1;
  }
}

void fill_bits(std::byte* to, std::int64_t bytes, std::uint64_t mask, Drawn& drawn) {
  for (std::int64_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = drawn.bits() & mask;
    std::memcpy(to + i, &word, 8);
  }
}

// Numbers of a storage type from a table of drawn ones: quick enough for whole matrices.
class DrawnNumbers {
 public:
  DrawnNumbers(WeightType type, float large, Drawn& drawn)
      : bytes_(cuda::element_bytes(type)), drawn_(drawn) {
    for (std::uint32_t& entry : table_) {
      const float value = drawn.odd(large) * 0.1f;
      if (type == WeightType::kF32) {
        std::memcpy(&entry, &value, 4);
      } else {
        entry = type == WeightType::kBf16 ? to_bf16(value) : to_f16(value);
      }
    }
  }

  void fill(std::byte* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * bytes_, &table_[drawn_.bits() % table_.size()], size(bytes_));
    }
  }

 private:
  const std::int64_t bytes_;
  Drawn& drawn_;
  std::array<std::uint32_t, 4096> table_;
};

// Draws the panels of one format.
class DrawnPanels {
 public:
  DrawnPanels(const QuantFormat& format, std::int64_t inputs, Drawn& drawn)
      : format_(format),
        layout_(format, inputs),
        drawn_(drawn),
        numbers_(format.scales == ScaleType::kF32 ? WeightType::kF32 : WeightType::kF16,
                 has_units() ? kLargeWeight / kLargestMultiple : kLargeWeight, drawn) {}

  std::int64_t panel_bytes() const { return layout_.panel_bytes; }

  void fill(std::byte* panel) {
    const std::int64_t scales = format_.scales_per_group();
    const bool is_low = format_.bits == 8 && format_.has_minimum;
    for (std::int64_t g = 0; g < layout_.groups; ++g) {
      fill_bits(panel + layout_.values(g), layout_.group_bytes,
                is_low ? 0x7f7f7f7f7f7f7f7fu : ~std::uint64_t{0}, drawn_);
      for (std::int64_t i = g * scales; i < (g + 1) * scales; ++i) {
        fill_scales(panel + layout_.scales(i));
        if (format_.has_minimum) fill_scales(panel + layout_.minimums(i));
      }
      if (!has_units() || g % kBlockGroups != 0) continue;
      numbers_.fill(panel + layout_.units(g), kPanelOutputs);
      if (format_.has_minimum) numbers_.fill(panel + layout_.minimum_units(g), kPanelOutputs);
    }
  }

 private:
  static constexpr float kLargestMultiple = 128.0f;

  bool has_units() const { return format_.scales == ScaleType::kMultiples; }
  // Or minimums.
  void fill_scales(std::byte* row) {
    if (has_units()) return fill_bits(row, kPanelOutputs, ~std::uint64_t{0}, drawn_);
    numbers_.fill(row, kPanelOutputs);
  }

  const QuantFormat format_;
  const PanelLayout layout_;
  Drawn& drawn_;
  DrawnNumbers numbers_;
};

}  // namespace

const std::vector<WeightKind>& weight_kinds() {
  static const std::vector<WeightKind> kinds = {
      {"int8", WeightType::kQuantized, {.bits = 8}},
      {"int8 wide", WeightType::kQuantized, {.bits = 8, .scales = ScaleType::kF32}},
      {"int8 minimum", WeightType::kQuantized, {.bits = 8, .has_minimum = true}},
      {"int8 wide minimum",
       WeightType::kQuantized,
       {.bits = 8, .scales = ScaleType::kF32, .has_minimum = true}},
      {"int8 halves", WeightType::kQuantized, {.bits = 8, .scale_group = 16}},
      {"int8 wide halves",
       WeightType::kQuantized,
       {.bits = 8, .scale_group = 16, .scales = ScaleType::kF32}},
      {"int4", WeightType::kQuantized, {.bits = 4, .has_minimum = true}},
      {"int4 wide",
       WeightType::kQuantized,
       {.bits = 4, .scales = ScaleType::kF32, .has_minimum = true}},
      {"int4 zero 8", WeightType::kQuantized, {.bits = 4}},
      {"int4 wide zero 8", WeightType::kQuantized, {.bits = 4, .scales = ScaleType::kF32}},
      {"int8 multiples", WeightType::kQuantized, {.bits = 8, .scales = ScaleType::kMultiples}},
      {"int8 multiples minimum",
       WeightType::kQuantized,
       {.bits = 8, .scales = ScaleType::kMultiples, .has_minimum = true}},
      {"int8 multiples halves",
       WeightType::kQuantized,
       {.bits = 8, .scale_group = 16, .scales = ScaleType::kMultiples}},
      {"int6",
       WeightType::kQuantized,
       {.bits = 6, .scale_group = 16, .scales = ScaleType::kMultiples}},
      {"int4 multiples minimum",
       WeightType::kQuantized,
       {.bits = 4, .scales = ScaleType::kMultiples, .has_minimum = true}},
      {"int4 multiples zero 8",
       WeightType::kQuantized,
       {.bits = 4, .scales = ScaleType::kMultiples}},
      {"f32", WeightType::kF32},
      {"bf16", WeightType::kBf16},
      {"f16", WeightType::kF16}};
  return kinds;
}

std::vector<std::byte> DrawnMatrix::on_device() const {
  const auto* from = static_cast<const std::byte*>(matrix.data);
  if (matrix.type == WeightType::kQuantized) return {from, from + bytes_of(matrix)};
  std::vector<std::byte> panels(size(cuda::lane_panel_bytes(matrix)));
  cuda::write_lane_panels(matrix, panels.data());
  return panels;
}

DrawnMatrix draw_matrix(const WeightKind& kind, std::int64_t outputs, std::int64_t inputs,
                        std::uint64_t seed) {
  Drawn drawn(seed);
  DrawnMatrix result;
  result.matrix = {.type = kind.type, .format = kind.format, .outputs = outputs, .inputs = inputs};
  const std::int64_t bytes = bytes_of(result.matrix);
  result.bytes.resize(size(bytes) + 64);
  result.begin = (64 - reinterpret_cast<std::uintptr_t>(result.bytes.data()) % 64) % 64;
  std::byte* data = result.bytes.data() + result.begin;
  result.matrix.data = data;
  if (kind.type != WeightType::kQuantized) {
    DrawnNumbers(kind.type, kLargeWeight, drawn).fill(data, outputs * inputs);
    return result;
  }
  DrawnPanels panels(kind.format, inputs, drawn);
  for (std::int64_t p = 0; p < PanelLayout::panels(outputs); ++p, data += panels.panel_bytes()) {
    panels.fill(data);
  }
  return result;
}

DrawnRows draw_rows(const Kernels& cpu, std::int64_t rows, std::int64_t count, std::uint64_t seed) {
  Drawn drawn(seed);
  const std::int64_t stride = pad_to_lanes(count), bytes = quantized_row_bytes(count);
  DrawnRows result{std::vector<float>(size(rows * stride)),
                   std::vector<std::byte>(size(rows * bytes))};
  for (std::int64_t r = 0; r < rows; ++r) {
    // Some rows hold tiny numbers only: their sums are subnormal.
    const float factor = r % 5 == 3 ? 0x1p-130f : 1.0f;
    const float large = r % 3 == 1 ? kLargeActivation : 100.0f;
    for (std::int64_t k = 0; k < count; ++k) {
      result.values[size(r * stride + k)] = drawn.odd(large) * factor;
    }
    cpu.quantize_row(result.values.data() + r * stride, count, result.quantized.data() + r * bytes);
  }
  return result;
}

CaseResult check_product(const CaseContext& context, const WeightKind& kind,
                         const ProductShape& shape, const cuda::ProductChoice& choice) {
  CaseResult result{std::string("product ") + kind.name + " " + std::to_string(shape.rows) + "x" +
                    std::to_string(shape.inputs)};
  const DrawnRows x = draw_rows(context.cpu, shape.rows, shape.inputs, context.seed);
  CaseMemory& memory = context.memory;
  const bool is_quantized = kind.type == WeightType::kQuantized;
  const MatmulInput on_cpu{shape.rows, pad_to_lanes(shape.inputs), x.values.data(),
                           x.quantized.data()};
  MatmulInput on_device = on_cpu;
  on_device.values = is_quantized ? nullptr : memory.upload(x.values);
  on_device.quantized = is_quantized ? memory.upload(x.quantized) : nullptr;
  Drawn drawn(context.seed + 1);
  std::vector<cuda::Product> products;
  std::vector<std::vector<float>> expected;
  for (const std::int64_t outputs : shape.outputs) {
    const std::int64_t stored = std::max(shape.inputs, shape.stored_inputs);
    DrawnMatrix weights = draw_matrix(kind, outputs, stored, drawn.bits());
    const std::byte* const on_device_data = memory.upload(weights.on_device());
    weights.matrix.inputs = shape.inputs;
    weights.matrix.stored_inputs = stored;
    const std::vector<float> bias = drawn.odd_values(outputs, kLargeActivation);
    const bool has_bias = drawn.below(2) == 0, adds = drawn.below(2) == 0;
    const std::int64_t stride = pad_to_lanes(outputs);
    std::vector<float> y = adds ? drawn.odd_values(shape.rows * stride, kLargeActivation)
                                : poisoned(shape.rows * stride);
    cuda::Product product{weights.matrix, {memory.upload(y), stride, nullptr, adds}};
    product.weights.data = on_device_data;
    if (has_bias) product.y.bias = memory.upload(bias);
    products.push_back(product);
    context.cpu.matmul(weights.matrix, on_cpu, {0, outputs},
                       {y.data(), stride, has_bias ? bias.data() : nullptr, adds});
    expected.push_back(std::move(y));
  }
  const auto count = static_cast<int>(products.size());
  if (is_quantized) {
    cuda::multiply_quantized(products.data(), count, on_device, choice, context.stream);
  } else {
    cuda::multiply(products.data(), count, on_device, context.stream);
  }
  for (std::size_t i = 0; i < products.size(); ++i) {
    compare(expected[i], memory.download(products[i].y.y, expected[i].size()), result);
  }
  memory.clear();
  return result;
}

namespace {

CaseResult check_norm(const CaseContext& context, std::int64_t rows, std::int64_t count,
                      bool has_norm) {
  CaseResult result{has_norm ? "norm and quantise" : "quantise"};
  CaseMemory& memory = context.memory;
  const DrawnRows x = draw_rows(context.cpu, rows, count, context.seed);
  const std::int64_t stride = pad_to_lanes(count), bytes = quantized_row_bytes(count);
  Drawn drawn(context.seed + 2);
  const std::vector<float> weight = drawn.odd_values(count, 100.0f);
  constexpr float kEpsilon = 1e-5f;
  // A row whose squares are no numbers has no norm. Of every second row one lane's squares are the
  // sum, and none is large, so that each rounding shows.
  std::vector<float> values = x.values, y(size(rows * stride));
  std::vector<std::byte> quantized(size(rows * bytes));
  std::vector<std::int32_t> order;  // of the rows that are normed
  for (std::int64_t r = 0; r < rows; ++r) {
    order.push_back(static_cast<std::int32_t>(has_norm ? rows - 1 - r : r));
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    float* from = values.data() + order[size(r)] * stride;
    if (has_norm) {
      const float largest = r % 2 == 0 ? 1e15f : 1.0f;
      for (std::int64_t k = 0; k < count; ++k) {
        from[k] = std::clamp(from[k], -largest, largest);
        if (r % 2 == 1 && k % 16 != r % 16) from[k] *= 0x1p-40f;
      }
      context.cpu.rms_norm(from, weight.data(), count, kEpsilon, y.data() + r * stride);
    }
    context.cpu.quantize_row(has_norm ? y.data() + r * stride : from, count,
                             quantized.data() + r * bytes);
  }
  auto* const to = memory.room<float>(y.size());
  auto* const to_quantized = memory.room<std::byte>(quantized.size());
  cuda::norm_and_quantize(
      {memory.upload(values), rows, count, stride, has_norm ? memory.upload(order) : nullptr},
      has_norm ? memory.upload(weight) : nullptr, kEpsilon, has_norm ? to : nullptr, to_quantized,
      context.stream);
  if (has_norm) compare(y, memory.download(to, y.size()), result);
  compare(quantized, memory.download(to_quantized, quantized.size()), result);
  memory.clear();
  return result;
}

// The exponential of few numbers has other bits if its first steps round twice; these are such
// numbers.
constexpr float kRoundedOnce[] = {-0x1.7cf73p+5f, -0x1.c8742ap+5f, -0x1.a833a6p+5f,
                                  -0x1.1dae24p+5f};

CaseResult check_silu(const CaseContext& context, std::int64_t rows, std::int64_t count) {
  CaseResult result{"activation and quantise"};
  CaseMemory& memory = context.memory;
  const std::int64_t stride = pad_to_lanes(count), bytes = quantized_row_bytes(count);
  const DrawnRows up = draw_rows(context.cpu, rows, count, context.seed);
  Drawn drawn(context.seed + 3);
  std::vector<float> gate(size(rows * stride));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < count; ++k) {
      const bool is_known = k % 8 == 3;
      gate[size(r * stride + k)] = is_known ? kRoundedOnce[drawn.bits() % std::size(kRoundedOnce)]
                                            : drawn.odd(200.0f) * 8.0f;
    }
  }
  float* const to = memory.upload(gate);
  std::vector<std::byte> quantized(size(rows * bytes));
  auto* const to_quantized = memory.room<std::byte>(quantized.size());
  cuda::silu_and_quantize({to, rows, count, stride}, memory.upload(up.values), to_quantized,
                          context.stream);
  for (std::int64_t r = 0; r < rows; ++r) {
    context.cpu.silu_multiply(gate.data() + r * stride, up.values.data() + r * stride, stride);
    context.cpu.quantize_row(gate.data() + r * stride, count, quantized.data() + r * bytes);
  }
  compare(gate, memory.download(to, gate.size()), result);
  compare(quantized, memory.download(to_quantized, quantized.size()), result);
  memory.clear();
  return result;
}

CaseResult check_embedding(const CaseContext& context, std::int64_t rows, std::int64_t count,
                           const WeightKind& kind) {
  CaseResult result{std::string("embedding ") + kind.name};
  constexpr std::int64_t kVocabulary = 50;
  CaseMemory& memory = context.memory;
  const DrawnMatrix table = draw_matrix(kind, kVocabulary, count, context.seed);
  Drawn drawn(context.seed + 4);
  std::vector<std::int32_t> tokens;
  for (std::int64_t r = 0; r < rows; ++r) {
    tokens.push_back(static_cast<std::int32_t>(drawn.below(kVocabulary)));
  }
  const std::int64_t stride = pad_to_lanes(count);
  std::vector<float> x(size(rows * stride));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t at = tokens[size(r)] * count + k;
      float& value = x[size(r * stride + k)];
      std::uint16_t bits = 0;
      if (kind.type == WeightType::kF32) {
        std::memcpy(&value, table.bytes.data() + table.begin + at * 4, 4);
        continue;
      }
      std::memcpy(&bits, table.bytes.data() + table.begin + at * 2, 2);
      value = kind.type == WeightType::kBf16 ? from_bf16(bits) : from_f16(bits);
    }
  }
  const auto* from = static_cast<const std::byte*>(table.matrix.data);
  const std::vector<std::byte> rows_of_table(from, from + bytes_of(table.matrix));
  auto* const to = memory.room<float>(x.size());
  cuda::embed(memory.upload(rows_of_table), kind.type, memory.upload(tokens),
              {to, rows, count, stride}, context.stream);
  compare(x, memory.download(to, x.size()), result);
  memory.clear();
  return result;
}

}  // namespace

std::vector<CaseResult> check_rows(const CaseContext& context, std::int64_t rows,
                                   std::int64_t count) {
  std::vector<CaseResult> results = {check_norm(context, rows, count, true),
                                     check_norm(context, rows, count, false),
                                     check_silu(context, rows, count)};
  for (const WeightKind& kind : weight_kinds()) {
    if (kind.type == WeightType::kQuantized) continue;
    results.push_back(check_embedding(context, rows, count, kind));
  }
  return results;
}

}  // namespace outrider::gpu
