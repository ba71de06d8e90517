// The layout of int8 or int4 matrices, and of int8 rows of activations.
//
// A stored weight means scale * (value - zero) + minimum; its value is an unsigned number of 8 or 4
// bits, or what a table has for one of 4 bits. Along K, 32 elements are a group: activations have
// one scale per group, weights one scale and minimum per group or per half group. 16 outputs are a
// panel, which is contiguous:
//
//   values    [groups][steps][16 outputs][4 bytes]
//             int8, 8 steps: byte i of step s = element 4s + i
//             int4, 4 steps: byte i of step s = element 4s + i (low half), 16 + 4s + i (high half)
//   scales    [groups * 32 / scale_group][16 outputs], f16 or f32
//   minimums  as many as scales and of their type, where the format has them
//
// So a 32-bit integer lane sums one output's products and no sum crosses lanes on any CPU
// (docs/row-invariance.md), and a product reads a panel as one stream. K is padded to whole groups
// and the outputs to whole panels, with zeros.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider {

inline constexpr std::int64_t kQuantGroup = 32;
inline constexpr std::int64_t kPanelOutputs = 16;

// IQ4_NL's values as numbers of 8 bits, of which 128 means 0.
inline constexpr std::uint8_t kTableValues[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                  129, 141, 153, 166, 181, 197, 217, 241};

struct QuantFormat {
  std::uint8_t bits = 8;          // 8 or 4
  std::uint8_t scale_group = 32;  // weights per scale: 32 or 16
  bool wide_scales = false;       // scales and minimums are f32; else f16
  bool has_minimum = false;       // then values of 8 bits are at most 127
  bool has_table = false;         // values of 4 bits index kTableValues; 32 weights per scale

  // The value that means 0 before the minimum is added.
  std::int32_t zero() const { return has_minimum ? 0 : has_table ? 128 : 1 << (bits - 1); }
  std::int64_t scales_per_group() const { return kQuantGroup / scale_group; }
  std::int64_t scale_bytes() const { return wide_scales ? 4 : 2; }

  friend bool operator==(const QuantFormat&, const QuantFormat&) = default;
};

// Offsets within a matrix of one format.
struct PanelLayout {
  PanelLayout(const QuantFormat& format, std::int64_t inputs)
      : groups((inputs + kQuantGroup - 1) / kQuantGroup),
        group_bytes(kPanelOutputs * kQuantGroup * format.bits / 8),
        scales(groups * group_bytes),
        minimums(scales +
                 groups * format.scales_per_group() * kPanelOutputs * format.scale_bytes()),
        panel_bytes(round_up(minimums + (format.has_minimum ? minimums - scales : 0))) {}

  static std::int64_t panels(std::int64_t outputs) {
    return (outputs + kPanelOutputs - 1) / kPanelOutputs;
  }

  std::int64_t groups;
  std::int64_t group_bytes;  // values of one group
  std::int64_t scales;       // bytes from a panel's begin
  std::int64_t minimums;
  std::int64_t panel_bytes;  // a multiple of 64

 private:
  static std::int64_t round_up(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }
};

// 32 quantised weights of one output: the input of a panel.
struct WeightGroup {
  std::uint8_t values[kQuantGroup] = {};
  float scales[2] = {};  // the second where scale_group is 16
  float minimum = 0.0f;
  float second_minimum = 0.0f;  // where scale_group is 16
};

// 32 activations of a row, x = scale * value, values in [-127, 127], with everything that a product
// needs of them, in one cache line. A row is its groups one after the other, at a multiple of 64
// bytes. Offsets correct a sum for the weights' zero: -zero * the sum of the values.
struct QuantizedGroup {
  std::int8_t values[kQuantGroup];
  float scale;
  float scaled_sum;               // scale * the sum of the values
  std::int32_t offset4;           // for int4
  std::int32_t offset8;           // for int8
  std::int32_t half_offsets8[2];  // for int8 with a scale for each half group
  std::int32_t unused[2];         // 0
};
static_assert(sizeof(QuantizedGroup) == 64);

constexpr std::int64_t quantized_row_bytes(std::int64_t count) {
  return (count + kQuantGroup - 1) / kQuantGroup *
         static_cast<std::int64_t>(sizeof(QuantizedGroup));
}

}  // namespace outrider
